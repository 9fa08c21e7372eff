#pragma once

// What the threads of one block share: barriers, dynamic shared memory, registers.

#include <cstdint>

#include "cuda/simt/index.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/barriers.hpp"
#include "emu/indices.hpp"
#endif

namespace megamoe::simt {

/// All threads of the block, memory ordered: barrier 0.
MM_DEVICE void sync_threads(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  __syncthreads();
#else
  emu::barrier_sync(0, num_threads(), where);
#endif
}

/// Waits until `count` threads, a multiple of 32, have arrived at named barrier `barrier_idx` (0 to 15; sync_threads
/// uses 0). Whole warps arrive.
MM_DEVICE void barrier_sync(uint32_t barrier_idx, uint32_t count MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("bar.sync %0, %1;" ::"r"(barrier_idx), "r"(count) : "memory");
#else
  emu::barrier_sync(barrier_idx, count, where);
#endif
}

/// Counts as arrived, does not wait.
MM_DEVICE void barrier_arrive(uint32_t barrier_idx, uint32_t count MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier_idx), "r"(count) : "memory");
#else
  emu::barrier_arrive(barrier_idx, count, where);
#endif
}

/// The block's dynamic shared memory, aligned to 1024 bytes; its size is the launch's.
MM_DEVICE uint8_t* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(1024) uint8_t mm_dynamic_shared[];
  return mm_dynamic_shared;
#else
  return static_cast<uint8_t*>(emu::dynamic_shared());
#endif
}

/// The 32-bit address of shared memory that descriptors and instructions hold.
MM_DEVICE uint32_t shared_address(const void* pointer MM_WHERE) {
#if defined(__CUDACC__)
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#else
  return emu::shared_address(pointer, where);
#endif
}

/// setmaxnreg: registers per thread of this warpgroup from here on, a multiple of 8 from 24 to 256. All four warps call
/// it; growing waits until others have given enough back.
template <uint32_t kNumRegisters>
MM_DEVICE void shrink_registers(MM_WHERE_ONLY) {
  static_assert(kNumRegisters >= 24 && kNumRegisters <= 256 && kNumRegisters % 8 == 0);
#if defined(__CUDACC__)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kNumRegisters));
#else
  emu::set_max_registers(emu::RegisterChange::shrink, kNumRegisters, where);
#endif
}
template <uint32_t kNumRegisters>
MM_DEVICE void grow_registers(MM_WHERE_ONLY) {
  static_assert(kNumRegisters >= 24 && kNumRegisters <= 256 && kNumRegisters % 8 == 0);
#if defined(__CUDACC__)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kNumRegisters));
#else
  emu::set_max_registers(emu::RegisterChange::grow, kNumRegisters, where);
#endif
}

}  // namespace megamoe::simt
