#pragma once

// Lets one function serve g++, clang and nvcc (host and device).
//
// On the host these functions are always inlined: translation units are built for different instruction sets, and an
// out-of-line copy built for a wide one must never be linked into code that runs on a narrow one.

#include <cstdint>

#if defined(__CUDACC__)
#define MM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MM_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace megamoe {

MM_HOST_DEVICE constexpr uint32_t float_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
MM_HOST_DEVICE constexpr float bits_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// One rounding each, never contracted, never flushed: the same bits on host and device.
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float add_rn(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float rcp_rn(float a) { return __frcp_rn(a); }
#else
MM_HOST_DEVICE float add_rn(float a, float b) { return a + b; }
MM_HOST_DEVICE float mul_rn(float a, float b) { return a * b; }
MM_HOST_DEVICE float fma_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MM_HOST_DEVICE float rcp_rn(float a) { return 1.0F / a; }
#endif

}  // namespace megamoe
