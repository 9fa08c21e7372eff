#pragma once

// The dated record of a benchmark: enough to know years later what was measured, on what, and how to do it again.

#include <optional>
#include <string>

#include "bench_ceilings.hpp"
#include "console.hpp"
#include "megamoe/status.hpp"

namespace megamoe::cli {

/// Ok, if a record can be written to `path`. Errors: invalid_argument, with the system's words.
Status check_record_path(const std::string& path);

/// Writes date, command, machine, ceilings and `rows`, an array of objects, in place of what `path` was. The machine's
/// entry has the GPU's name, driver, clocks and power limit where there is a Hopper GPU, and why not where one of them
/// could not be read.
Status write_record(const std::string& path, const std::optional<Ceilings>& ceilings, const Json& rows);

}  // namespace megamoe::cli
