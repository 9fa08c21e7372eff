#pragma once

// How fast the communication stages are on GPUs, alone: dispatch (staging to the last arrival) and combine (push of
// results, and their sums).

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "check/synthetic.hpp"
#include "cuda/sm90/grids.hpp"
#include "megamoe/status.hpp"

namespace megamoe::stages {

enum class TimedStage : uint8_t { dispatch, combine };
std::string_view to_string(TimedStage stage);
/// "dispatch" or "combine".
Result<TimedStage> parse_timed_stage(std::string_view text);

/// Every part that the kernels time, in order: "stage_in", "count", ...
std::string_view to_string(sm90::Part part);

struct StageBenchSpec {
  LayerShape shape;
  uint32_t num_ranks = 2;
  uint32_t tokens_per_rank = 128;
  TimedStage stage = TimedStage::dispatch;
  uint32_t blocks_per_rank = 16;
  uint32_t threads_per_block = sm90::kMaxPlainThreads;
  uint32_t num_warmup_calls = 5;
  uint32_t num_calls = 30;
};

/// Times are of the slowest rank of each call; L2 is flushed and the ranks meet before it.
struct StageBenchResult {
  uint32_t num_devices = 0;
  std::string device_name;
  std::vector<double> kernel_seconds;  ///< sorted; between events around the kernel
  std::vector<double>
      flow_seconds;  ///< sorted; first block's begin of count (dispatch) or push to the last block's end
  std::array<std::vector<double>, sm90::kNumParts>
      part_seconds;           ///< sorted; first begin to last end; empty if not part of the stage
  uint64_t row_bytes = 0;     ///< rows and scales (dispatch) or partials (combine) moved by the rank that moves most
  uint64_t remote_bytes = 0;  ///< of these, over a link between two GPUs
  double link_gbytes_per_s =
      0;  ///< ceiling of this run: large copies in both directions at once, per direction; 0 with one GPU
};

/// Errors: unsupported without a Hopper GPU; whatever a launch or a wait reports.
Result<StageBenchResult> bench_stage(const StageBenchSpec& spec);

}  // namespace megamoe::stages
