#pragma once

// What the blocks of one cluster share.

#include <cstdint>

#include "cuda/simt/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/ptx>
#else
#include "emu/barriers.hpp"
#include "emu/indices.hpp"
#endif

namespace megamoe::simt {

/// All threads of the cluster arrive, then wait; release and acquire. Nothing may touch another block's shared memory
/// before the first such barrier (it may not have started) or after the last (it may have exited).
MM_DEVICE void cluster_arrive(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  emu::cluster_arrive(ptx::Order::release, where);
#endif
}

/// Orders no memory.
MM_DEVICE void cluster_arrive_relaxed(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
#else
  emu::cluster_arrive(ptx::Order::relaxed, where);
#endif
}

MM_DEVICE void cluster_wait(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  emu::cluster_wait(where);
#endif
}

/// The place in block `cluster_block_idx` of this cluster that `pointer` is in this block.
template <class T>
MM_DEVICE T* map_to_block(T* pointer, uint32_t cluster_block_idx MM_WHERE) {
#if defined(__CUDACC__)
  uint64_t mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(pointer), "r"(cluster_block_idx));
  return reinterpret_cast<T*>(mapped);
#else
  return static_cast<T*>(emu::map_to_block(pointer, cluster_block_idx, where));
#endif
}

}  // namespace megamoe::simt
