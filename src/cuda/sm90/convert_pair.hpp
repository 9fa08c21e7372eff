#pragma once

// Rules of src/flow and src/formats for two values at a time: the same bits in fewer instructions.

#include "cuda/ptx/convert.hpp"
#include "flow/quantise.hpp"

namespace megamoe::sm90 {

/// flow::quantise of both: `low` in the low byte. REQUIRES inverse_scale == rcp_rn(scale).
MM_DEVICE uint32_t quantise_pair(float low, float high, float inverse_scale) {
  constexpr float kNan = bits_float(0x7FC00000U);
  return ptx::e4m3x2_from_floats(flow::is_finite(low) ? mul_rn(low, inverse_scale) : kNan,
                                 flow::is_finite(high) ? mul_rn(high, inverse_scale) : kNan);
}

/// The same of two finite values.
MM_DEVICE uint32_t quantise_finite_pair(float low, float high, float inverse_scale) {
  return ptx::e4m3x2_from_floats(mul_rn(low, inverse_scale), mul_rn(high, inverse_scale));
}

/// bf16_from_float of both: `low` in the low half.
MM_DEVICE uint32_t bf16_pair(float low, float high) {
  constexpr uint32_t kLow = 0xFFFFU;
  uint32_t pair = ptx::bf16x2_from_floats(low, high);
  if (low != low) pair = (pair & ~kLow) | kBf16Nan;
  if (high != high) pair = (pair & kLow) | uint32_t{kBf16Nan} << 16U;
  return pair;
}

}  // namespace megamoe::sm90
