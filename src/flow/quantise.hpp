#pragma once

// How a group of up to 128 values becomes e4m3 codes and one scale: for input rows (stage_in) and for the activated
// intermediate (gemm1's epilogue) alike.

#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/platform.hpp"

namespace megamoe::flow {

enum class ScaleRule : uint32_t { fp32, power_of_two };

/// A scale below this would have an infinite reciprocal.
inline constexpr float kScaleMin = 0x1p-126F;

MM_HOST_DEVICE bool is_finite(float value) { return (float_bits(value) & 0x7F800000U) != 0x7F800000U; }

/// What one value adds to its group's absolute maximum: NaN and infinities stay out of it, so that they poison no
/// neighbour.
MM_HOST_DEVICE float amax_term(float value) {
  return is_finite(value) ? bits_float(float_bits(value) & 0x7FFFFFFFU) : 0.0F;
}

/// The group's scale. An all-zero group gets 1, so that its codes are exact zeros.
MM_HOST_DEVICE float group_scale(float amax, ScaleRule rule) {
  float scale = mul_rn(amax, 1.0F / kE4m3Max);
  scale = scale < kScaleMin ? kScaleMin : scale;
  scale = rule == ScaleRule::power_of_two ? power_of_two_ceil(scale) : scale;
  return amax == 0.0F ? 1.0F : scale;
}

/// REQUIRES inverse_scale == rcp_rn(scale). A value that is not finite becomes NaN.
MM_HOST_DEVICE uint8_t quantise(float value, float inverse_scale) {
  const uint8_t code = e4m3_from_float(mul_rn(value, inverse_scale));
  return is_finite(value) ? code : kE4m3Nan;
}

}  // namespace megamoe::flow
