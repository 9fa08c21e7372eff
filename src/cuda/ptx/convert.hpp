#pragma once

// Conversions that are one instruction for a pair of values.

#include <cstdint>

#include "cuda/simt/platform.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"

namespace megamoe::ptx {

/// cvt.rn.satfinite.e4m3x2: two FP32 values as e4m3 codes, `low` in the low byte. Nearest even, saturating at +-448;
/// any NaN becomes 0x7F.
MM_DEVICE uint16_t e4m3x2_from_floats(float low, float high) {
#if defined(__CUDACC__)
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
#else
  const auto code = [](float value) -> uint32_t { return value != value ? kE4m3Nan : e4m3_from_float(value); };
  return static_cast<uint16_t>(code(low) | code(high) << 8U);
#endif
}

/// cvt.rn.bf16x2: two FP32 values as BF16, `low` in the low half. Nearest even; overflow goes to infinity; any NaN
/// becomes 0x7FFF.
MM_DEVICE uint32_t bf16x2_from_floats(float low, float high) {
#if defined(__CUDACC__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  const auto bits = [](float value) -> uint32_t { return value != value ? 0x7FFFU : bf16_from_float(value); };
  return bits(low) | bits(high) << 16U;
#endif
}

/// rcp_rn for 2^-126 < value < 2^126: the hardware's estimate and one Newton step, which is what rcp_rn does there,
/// without its branch for other values.
MM_DEVICE float rcp_rn_of_normal(float value) {
#if defined(__CUDACC__)
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(value));
  return fma_rn(estimate, -fma_rn(value, estimate, -1.0F), estimate);
#else
  return rcp_rn(value);
#endif
}

}  // namespace megamoe::ptx
