#pragma once

// What must be the same, bit for bit, in the workspaces of the kernels and of the CPU backend. Each returns what
// differs, or an empty string.

#include <string>
#include <vector>

#include "check/stages/cpu_stages.hpp"

namespace megamoe::stages {

/// Staged rows, counts, and slot lists as sets. After dispatch with `num_blocks` blocks a rank.
std::string compare_lists(const StageCase& stage_case, const flow::Workspace& got, const CpuStages& cpu,
                          const RankData& data, uint32_t rank);

/// The pool: arrivals per block, and rows as sets per expert and source. After dispatch.
std::string compare_pool(const StageCase& stage_case, const flow::Workspace& got, const CpuStages& cpu, uint32_t rank);

/// Whatever counts up during a call is zero again, and no wait has failed. After combine.
std::string find_leftovers(const StageCase& stage_case, const flow::Workspace& got);

}  // namespace megamoe::stages
