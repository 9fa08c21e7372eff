#pragma once

// wgmma: the multiply of a warpgroup, one instruction a function. Every function is called by all 128 lanes.
//
// The order that the hardware asks for, and that the emulator checks:
//   wgmma_fence();                          after ordinary code touched D (or A in registers)
//   wgmma_mma_async<spec>(d, a, b, ...);    once per K step
//   wgmma_commit_group();
//   wgmma_wait_group<0>();                  only now may ordinary code read or write D, or reuse A's and B's memory
// Shared memory that ordinary stores wrote also needs fence_proxy_async before the barrier that hands it over.

#include <cstdint>

#include "cuda/ptx/wgmma_descriptor.hpp"
#include "cuda/ptx/wgmma_instruction.hpp"
#include "cuda/ptx/wgmma_shape.hpp"
#include "formats/platform.hpp"

namespace megamoe::ptx {

#if defined(__CUDACC__)

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/// Waits until at most `kNumPending` of this warpgroup's groups are unfinished.
template <uint32_t kNumPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kNumPending) : "memory");
}

/// D[64, n] = A * B (+ D), A and B in shared memory; `d` is this lane's fragment (see emu/tensor_core/fragments.hpp).
template <WgmmaSpec kSpec>
__device__ __forceinline__ void wgmma_mma_async(float (&d)[kSpec.n / 2], WgmmaDescriptor a, WgmmaDescriptor b,
                                                ScaleD scale_d) {
  static_assert(is_valid(kSpec), "n must be a multiple of 8 up to 256, and e4m3 operands K-major");
  detail::WgmmaInstruction<kSpec.n>::template shared<kSpec>(d, static_cast<uint64_t>(a), static_cast<uint64_t>(b),
                                                            static_cast<uint32_t>(scale_d));
}

/// The same with A in registers: `a` is this lane's fragment, 4 x 4 e4m3 or 4 x 2 bf16 values.
template <WgmmaSpec kSpec>
__device__ __forceinline__ void wgmma_mma_async(float (&d)[kSpec.n / 2], const uint32_t (&a)[4], WgmmaDescriptor b,
                                                ScaleD scale_d) {
  static_assert(is_valid(kSpec) && kSpec.a_major == Major::k, "A in registers has no major");
  detail::WgmmaInstruction<kSpec.n>::template registers<kSpec>(d, a, static_cast<uint64_t>(b),
                                                               static_cast<uint32_t>(scale_d));
}

/// Keeps the compiler from moving its own accesses to `d` across this point; no instruction.
template <uint32_t kNumRegisters>
__device__ __forceinline__ void wgmma_pin(float (&d)[kNumRegisters]) {
#pragma unroll
  for (uint32_t i = 0; i < kNumRegisters; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#endif

}  // namespace megamoe::ptx
