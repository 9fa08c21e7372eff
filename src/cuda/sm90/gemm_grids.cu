// gemm1 and gemm2 as grids: one rank's blocks, or those of several virtual ranks.

#include "cuda/sm90/gemm_kernels.hpp"
#include "cuda/sm90/grids.hpp"
#include "cuda/sm90/plain_kernels.hpp"

namespace megamoe::sm90 {
namespace {

/// nvcc wants template parameters of grids to be simpler than a GemmConfig.
template <Phases kPhases>
constexpr GemmConfig kChainConfig{.strategy = Strategy::wide, .phases = kPhases, .max_block_m = 128};

template <Phases kPhases, uint32_t kNumRanks>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm_grid(const __grid_constant__ RankArguments<kNumRanks> arguments, uint32_t blocks_per_rank) {
  const VirtualRank mine = virtual_rank(blocks_per_rank);
  gemm_kernel<kChainConfig<kPhases>>(arguments.ranks[mine.idx], mine.worker_idx, blocks_per_rank);
}

}  // namespace

template <uint32_t kNumRanks>
const void* gemm1_grid_function() {
  return reinterpret_cast<const void*>(&gemm_grid<Phases::gemm1, kNumRanks>);
}
template <uint32_t kNumRanks>
const void* gemm2_grid_function() {
  return reinterpret_cast<const void*>(&gemm_grid<Phases::gemm2, kNumRanks>);
}

template const void* gemm1_grid_function<1>();
template const void* gemm1_grid_function<kMaxVirtualRanks>();
template const void* gemm2_grid_function<1>();
template const void* gemm2_grid_function<kMaxVirtualRanks>();

uint32_t gemm_grid_shared_bytes(const flow::Dims& dims) {
  static_assert(GemmShared<kChainConfig<Phases::gemm1>>::kSlotsBytes ==
                GemmShared<kChainConfig<Phases::gemm2>>::kSlotsBytes);
  return GemmShared<kChainConfig<Phases::gemm1>>::num_bytes(dims);
}

}  // namespace megamoe::sm90
