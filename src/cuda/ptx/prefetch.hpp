#pragma once

// Hints: bring memory near, promise nothing.

#include <cstdint>

#include "cuda/ptx/tensor_map.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/memory.hpp"
#endif

namespace megamoe::ptx {

/// The line of `address` in global memory, into L2.
MM_DEVICE void prefetch_l2(const void* address MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  emu::prefetch(address, 1, where);
#endif
}

/// A range of global memory, aligned to and a multiple of 16 bytes, into L2.
MM_DEVICE void bulk_prefetch_l2(const void* address, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(num_bytes));
#else
  emu::prefetch(address, num_bytes, where);
#endif
}

/// The map itself, before the first copy uses it.
MM_DEVICE void prefetch_tensor_map(const TensorMap* map) {
#if defined(__CUDACC__)
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
  (void)map;
#endif
}

}  // namespace megamoe::ptx
