#pragma once

// The Hopper backend as the rest of the library sees it: no CUDA here, so that a build without it has the same rules
// and says what is missing (no_cuda.cpp).

#include <cstdint>
#include <memory>
#include <string>

#include "host/backend.hpp"
#include "host/plan.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// The GPUs that the Hopper kernels can run on.
struct HopperGpus {
  uint32_t num_gpus = 0;
  uint32_t num_sms = 0;  ///< of the one that has fewest
};

/// The visible ones. Errors: unsupported, saying what is missing: CUDA in the build, a driver, a GPU of this kind.
Result<HopperGpus> find_hopper_gpus();

/// Ranks that one GPU can play.
inline constexpr uint32_t kMaxRanksPerGpu = 8;
/// The tiles of the Hopper kernels: pool rows, intermediate columns, hidden columns.
inline constexpr uint32_t kSm90BlockM = 128;
/// Pool rows where the strategy is pingpong in every call.
inline constexpr uint32_t kSm90PingpongBlockM = 64;
inline constexpr uint32_t kSm90Gemm1BlockN = 128;
inline constexpr uint32_t kSm90Gemm2BlockN = 256;

/// Deals ranks out to GPUs: one each where there are as many, else as evenly as they divide. REQUIRES a config that
/// validate_config() accepts and at least one GPU. Errors: unsupported, for tuning that is the CPU's, for more ranks
/// than the GPUs can play, for a shape that the kernels cannot take.
Result<Sm90Plan> make_sm90_plan(const LayerConfig& config, uint32_t num_ranks, const HopperGpus& gpus);

/// Pool rows of a block for a layer of that strategy.
uint32_t sm90_block_m(Strategy wanted);

/// Up to this many rows an expert on average weights as M are faster (docs/perf/0008).
inline constexpr uint32_t kMaxSmallBatchMean = 16;
/// What a call takes that brings `num_rows` rows, masked ones included, to `num_experts` routed experts: `wanted`, or
/// what is fastest if that is automatic. ENSURES never automatic.
Strategy choose_strategy(Strategy wanted, uint64_t num_rows, uint32_t num_experts);
/// The same in words.
std::string strategy_rule(Strategy wanted);

/// Up to this many rows an expert on average gemm1 and gemm2 in one launch are faster than in two (docs/perf/0009).
inline constexpr uint32_t kMaxMergedMean = 128;
/// How a call that brings `num_rows` rows to `num_experts` routed experts is launched where the plan says `planned`:
/// gemms or chain.
Fusion choose_fusion(Fusion planned, uint64_t num_rows, uint32_t num_experts);

/// What a call of a Hopper layer finds in L2.
enum class L2State : uint32_t { as_it_is, flushed };
/// For benchmarks: layers that are made from now on first have each GPU overwrite its L2, before the time of a call
/// begins. Launches are then queued while the GPU is busy, as they are in a model. Default: as_it_is.
void set_sm90_l2_state(L2State state);

/// As make_cpu_backend(), on the visible Hopper GPUs. Errors besides: unsupported, for a group over processes, for
/// weights that are not FP8 with one scale per 128 x 128.
Result<std::unique_ptr<LayerBackend>> make_sm90_backend(const LayerParts& parts);

}  // namespace megamoe::internal
