#pragma once

// Who am I: indices of thread, warp, block and cluster. Kernels are one-dimensional.

#include <cstdint>

#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/indices.hpp"
#endif

namespace megamoe::simt {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kWarpgroupThreads = 128;

#if defined(__CUDACC__)

MM_DEVICE uint32_t thread_idx() { return threadIdx.x; }
MM_DEVICE uint32_t num_threads() { return blockDim.x; }
MM_DEVICE uint32_t block_idx() { return blockIdx.x; }
MM_DEVICE uint32_t num_blocks() { return gridDim.x; }
MM_DEVICE uint32_t lane_idx() {
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
/// This block within its cluster, and the cluster within the grid.
MM_DEVICE uint32_t cluster_block_idx() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
MM_DEVICE uint32_t num_cluster_blocks() {
  uint32_t count;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}
MM_DEVICE uint32_t cluster_idx() {
  uint32_t idx;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(idx));
  return idx;
}
MM_DEVICE uint32_t sm_idx() {
  uint32_t idx;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(idx));
  return idx;
}

#else

inline uint32_t thread_idx() { return emu::indices().thread; }
inline uint32_t num_threads() { return emu::indices().num_threads; }
inline uint32_t block_idx() { return emu::indices().block; }
inline uint32_t num_blocks() { return emu::indices().num_blocks; }
inline uint32_t lane_idx() { return emu::indices().thread % kWarpLanes; }
inline uint32_t cluster_block_idx() { return emu::indices().cluster_block; }
inline uint32_t num_cluster_blocks() { return emu::indices().num_cluster_blocks; }
inline uint32_t cluster_idx() { return emu::indices().block / emu::indices().num_cluster_blocks; }
inline uint32_t sm_idx() { return emu::indices().sm; }

#endif

/// The same value in all lanes of a warp, but the compiler does not know; see warp_idx_uniform in warp.hpp.
MM_DEVICE uint32_t warp_idx() { return thread_idx() / kWarpLanes; }
MM_DEVICE uint32_t warpgroup_idx() { return thread_idx() / kWarpgroupThreads; }

}  // namespace megamoe::simt
