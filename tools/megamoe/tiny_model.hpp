#pragma once

// Where the tiny real model that comes with the project lies.

#include <filesystem>
#include <string>

#include "megamoe/status.hpp"

namespace megamoe::cli {

/// `given` if it is not empty; else the first place that holds it: below the current folder, beside the build folder or
/// the installed command, in the source tree. Errors: not_found, which names --data as the remedy.
Result<std::filesystem::path> find_tiny_model(const std::string& given);

}  // namespace megamoe::cli
