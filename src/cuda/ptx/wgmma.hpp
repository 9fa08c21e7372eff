#pragma once

// wgmma: the multiply of a warpgroup, one instruction a function. Every function is called by all 128 lanes.
//
// The order that the hardware asks for, and that the emulator checks (emu/tensor_core/warpgroup_mma.hpp lists its
// findings):
//   wgmma_fence();                          after ordinary code touched D (or A in registers)
//   wgmma_mma_async<spec>(d, a, b, ...);    once per K step
//   wgmma_commit_group();
//   wgmma_wait_group<0>();                  only now may ordinary code read or write D, or reuse A's and B's memory
// Shared memory that ordinary stores wrote also needs fence_proxy_async before the barrier that hands it over.

#include <cstdint>

#include "cuda/ptx/wgmma_descriptor.hpp"
#include "cuda/ptx/wgmma_instruction.hpp"
#include "cuda/ptx/wgmma_shape.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/tensor_core/warpgroup_mma.hpp"
#endif

namespace megamoe::ptx {

/// Orders ordinary accesses to D, and to A in registers, before the mma instructions that follow.
MM_DEVICE void wgmma_fence(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#else
  emu::wgmma_fence(where);
#endif
}

/// Closes a group of the mma instructions since the last one.
MM_DEVICE void wgmma_commit_group(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#else
  emu::wgmma_commit_group(where);
#endif
}

/// Waits until at most `kNumPending` of this warpgroup's latest groups are unfinished.
template <uint32_t kNumPending>
MM_DEVICE void wgmma_wait_group(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kNumPending) : "memory");
#else
  emu::wgmma_wait_group(kNumPending, where);
#endif
}

/// D[64, n] = A * B (+ D), A and B in shared memory. `d` is this lane's part, see wgmma_fragment.hpp.
template <WgmmaSpec kSpec>
MM_DEVICE void wgmma_mma_async(float (&d)[kSpec.n / 2], WgmmaDescriptor a, WgmmaDescriptor b, ScaleD scale_d MM_WHERE) {
  static_assert(is_valid(kSpec), "n must be a multiple of 8 up to 256, and e4m3 operands K-major");
#if defined(__CUDACC__)
  detail::WgmmaInstruction<kSpec.n>::template shared<kSpec>(d, static_cast<uint64_t>(a), static_cast<uint64_t>(b),
                                                            static_cast<uint32_t>(scale_d));
#else
  emu::wgmma_mma_async(kSpec, d, nullptr, a, b, scale_d, where);
#endif
}

/// The same with A in registers: `a` is this lane's part, 4 x 4 e4m3 or 4 x 2 bf16 values.
template <WgmmaSpec kSpec>
MM_DEVICE void wgmma_mma_async(float (&d)[kSpec.n / 2], const uint32_t (&a)[4], WgmmaDescriptor b,
                               ScaleD scale_d MM_WHERE) {
  static_assert(is_valid(kSpec) && kSpec.a_major == Major::k, "A in registers has no major");
#if defined(__CUDACC__)
  detail::WgmmaInstruction<kSpec.n>::template registers<kSpec>(d, a, static_cast<uint64_t>(b),
                                                               static_cast<uint32_t>(scale_d));
#else
  emu::wgmma_mma_async(kSpec, d, a, WgmmaDescriptor{}, b, scale_d, where);
#endif
}

/// Keeps the compiler from moving its own accesses to `d` across this point; no instruction. It stands between ordinary
/// code that has `d` and the wgmma instructions that have it: before wgmma_fence, and behind the wait.
template <uint32_t kNumRegisters>
MM_DEVICE void wgmma_pin(float (&d)[kNumRegisters] MM_WHERE) {
#if defined(__CUDACC__)
#pragma unroll
  for (uint32_t i = 0; i < kNumRegisters; ++i) asm volatile("" : "+f"(d[i])::"memory");
#else
  emu::wgmma_pin(d, kNumRegisters, where);
#endif
}

}  // namespace megamoe::ptx
