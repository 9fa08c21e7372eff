#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "flow/fields.hpp"
#include "host/errors.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::internal {
namespace {

template <class Value>
Status unsupported(std::string_view rule, const Value& value, std::string_view remedy) {
  return error(StatusCode::unsupported, rule, value, remedy);
}

/// The kernels have one tile each, in which the packed weights lie.
Status check_tile(std::string_view name, uint32_t wanted, uint32_t tile) {
  if (wanted == 0 || wanted == tile) return {};
  return unsupported(fmt::format("{} must be {} on sm90", name, tile), wanted, "use 0 to let MegaMoE choose");
}

Status check_tuning(const Tuning& tuning) {
  MM_RETURN_IF_ERROR(check_tile("block_m", tuning.block_m, sm90_block_m(tuning.strategy)));
  MM_RETURN_IF_ERROR(check_tile("gemm1_block_n", tuning.gemm1_block_n, kSm90Gemm1BlockN));
  MM_RETURN_IF_ERROR(check_tile("gemm2_block_n", tuning.gemm2_block_n, kSm90Gemm2BlockN));
  if (tuning.threads_per_rank != 0) {
    return unsupported("threads_per_rank must be 0 on sm90, whose workers are all SMs of a GPU",
                       tuning.threads_per_rank, "leave it out, or use the cpu backend");
  }
  if (tuning.isa != Isa::automatic) {
    return unsupported("isa must be auto on sm90: it names CPU kernels", to_string(tuning.isa),
                       "leave it out, or use the cpu backend");
  }
  if (tuning.pin != Pin::automatic) {
    return unsupported("pin must be auto on sm90: it places CPU threads", to_string(tuning.pin),
                       "leave it out, or use the cpu backend");
  }
  return {};
}

}  // namespace

uint32_t sm90_block_m(Strategy wanted) { return wanted == Strategy::pingpong ? kSm90PingpongBlockM : kSm90BlockM; }

Strategy choose_strategy(Strategy wanted, uint64_t num_rows, uint32_t num_experts) {
  if (wanted != Strategy::automatic) return wanted;
  return num_rows <= uint64_t{kMaxSmallBatchMean} * num_experts ? Strategy::small_batch : Strategy::cooperative;
}

Fusion choose_fusion(Fusion planned, uint64_t num_rows, uint32_t num_experts) {
  const bool is_merged = planned == Fusion::gemms && num_rows <= uint64_t{kMaxMergedMean} * num_experts;
  return is_merged ? Fusion::gemms : Fusion::chain;
}

std::string strategy_rule(Strategy wanted) {
  if (wanted != Strategy::automatic) return fmt::format("{} in every call, as asked for", to_string(wanted));
  return fmt::format("{} in calls of at most {} rows a routed expert on average, {} in others",
                     to_string(Strategy::small_batch), kMaxSmallBatchMean, to_string(Strategy::cooperative));
}

Result<Sm90Plan> make_sm90_plan(const LayerConfig& config, uint32_t num_ranks, const HopperGpus& gpus) {
  MM_RETURN_IF_ERROR(check_tuning(config.tuning));
  constexpr uint32_t kMaxIntermediate = kSm90Gemm1BlockN * flow::kMaxGemm1NBlocks;
  if (config.shape.intermediate > kMaxIntermediate) {
    return unsupported(fmt::format("intermediate must be at most {} on sm90", kMaxIntermediate),
                       config.shape.intermediate, "split every expert into narrower ones, or use the cpu backend");
  }
  const uint32_t ranks_per_gpu = flow::ceil_div(num_ranks, gpus.num_gpus);
  if (ranks_per_gpu > kMaxRanksPerGpu) {
    return unsupported(
        fmt::format("the {} Hopper GPUs must play all ranks, at most {} each", gpus.num_gpus, kMaxRanksPerGpu),
        num_ranks, "make a group of fewer ranks, or use more GPUs");
  }
  return Sm90Plan{.ranks_per_gpu = ranks_per_gpu, .blocks_per_rank = std::max(1U, gpus.num_sms / ranks_per_gpu)};
}

}  // namespace megamoe::internal
