#pragma once

// FP4 e2m1: 1 sign, 2 exponent, 1 fraction bit; values 0 0.5 1 1.5 2 3 4 6 and their negatives. Two codes per byte:
// the low nibble is the even column, the high nibble the odd one.

#include "formats/platform.hpp"

namespace megamoe {

inline constexpr float kE2m1Max = 6.0F;

/// REQUIRES code < 16.
MM_HOST_DEVICE constexpr float e2m1_to_float(uint32_t code) {
  const uint32_t magnitude = code & 7U;
  const uint32_t sign = (code & 8U) << 28;
  const float subnormal = magnitude == 0U ? 0.0F : 0.5F;
  const float normal = bits_float((magnitude << 22) + (126U << 23));
  return bits_float(sign | float_bits(magnitude < 2U ? subnormal : normal));
}

/// Nearest even, saturating at +-6. NaN has no code: REQUIRES value is not NaN.
MM_HOST_DEVICE constexpr uint8_t e2m1_from_float(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 28) & 8U;
  const uint32_t max_bits = float_bits(kE2m1Max);
  const uint32_t clamped = (bits & 0x7FFFFFFFU) < max_bits ? (bits & 0x7FFFFFFFU) : max_bits;
  // Below 1 the grid is 0.5: adding 2^22 (whose unit in the last place is 0.5) rounds to it.
  const uint32_t subnormal = float_bits(bits_float(clamped) + 0x1p22F) - float_bits(0x1p22F);
  const uint32_t normal = ((clamped + 0x1FFFFFU + ((clamped >> 22) & 1U)) >> 22) - (126U << 1);
  return static_cast<uint8_t>(sign | (clamped < float_bits(1.0F) ? subnormal : normal));
}

MM_HOST_DEVICE constexpr uint32_t e2m1_even_column(uint8_t packed) { return packed & 15U; }
MM_HOST_DEVICE constexpr uint32_t e2m1_odd_column(uint8_t packed) { return static_cast<uint32_t>(packed) >> 4; }

}  // namespace megamoe
