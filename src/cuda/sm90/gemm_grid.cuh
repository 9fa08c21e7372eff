#pragma once

// gemm1 and gemm2 as grids, each or both in one: one rank's blocks, or those of several virtual ranks. Each strategy is
// compiled by a source file of its own.

#include "cuda/sm90/gemm_kernels.hpp"
#include "cuda/sm90/grids.hpp"
#include "cuda/sm90/plain_kernels.hpp"

namespace megamoe::sm90 {

// nvcc wants template parameters of grids to be simpler than a GemmConfig.
template <Strategy kStrategy, Phases kPhases, uint32_t kNumRanks>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm_grid(const __grid_constant__ RankArguments<kNumRanks> arguments, uint32_t blocks_per_rank) {
  const VirtualRank mine = virtual_rank(blocks_per_rank);
  gemm_kernel<chain_config(kStrategy, kPhases)>(arguments.ranks[mine.idx], mine.worker_idx, blocks_per_rank);
}

template <Strategy kStrategy, uint32_t kNumRanks>
const void* gemm_grid_function(Phases phases) {
  switch (phases) {
    case Phases::gemm1: return reinterpret_cast<const void*>(&gemm_grid<kStrategy, Phases::gemm1, kNumRanks>);
    case Phases::gemm2: return reinterpret_cast<const void*>(&gemm_grid<kStrategy, Phases::gemm2, kNumRanks>);
    case Phases::both: return reinterpret_cast<const void*>(&gemm_grid<kStrategy, Phases::both, kNumRanks>);
  }
  return nullptr;
}

}  // namespace megamoe::sm90
