#pragma once

// Where the ranks of a run live.

#include <cstdint>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe::cli {

enum class GroupKind : uint8_t {
  threads,  ///< all ranks in this process
  mpi,      ///< one rank per process of mpirun
};

std::string_view to_string(GroupKind group);
Result<GroupKind> parse_group(std::string_view text);

}  // namespace megamoe::cli
