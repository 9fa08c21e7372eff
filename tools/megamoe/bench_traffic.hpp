#pragma once

// The bytes that one call of a benchmark has to move.

#include <cstdint>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

struct Traffic {
  /// Rows on their way to the experts (FP8 values, their scales, the router weight) and home (BF16), over all ranks.
  uint64_t row_bytes = 0;
  /// Of these, what comes over links into the GPU that gets most; 0 with one GPU or none.
  uint64_t link_bytes = 0;
};

/// GPUs that the ranks of the plan are played on; 0 on the CPU.
uint32_t count_gpus(const PlanInfo& plan);

/// One call with the given tokens, as many on every rank, played on this many GPUs.
Traffic count_traffic(const SyntheticBatch& tokens, const Layer& layer, uint32_t tokens_per_rank, uint32_t num_gpus);

}  // namespace megamoe::cli
