#pragma once

// FP8 e4m3 "fn": 1 sign, 4 exponent (bias 7), 3 fraction bits; no infinities; NaN is 0x7F and 0xFF.

#include "formats/platform.hpp"

namespace megamoe {

inline constexpr float kE4m3Max = 448.0F;
inline constexpr uint8_t kE4m3Nan = 0x7F;

MM_HOST_DEVICE constexpr float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7FU;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
  // Exponent 0 is subnormal: an integer count of 2^-9.
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9F;
  const float normal = bits_float((magnitude << 20) + (120U << 23));
  const float value = magnitude < 8U ? subnormal : normal;
  return magnitude == kE4m3Nan ? bits_float(sign | 0x7FC00000U) : bits_float(sign | float_bits(value));
}

/// Nearest even, saturating at +-448 (infinity too); NaN becomes NaN.
MM_HOST_DEVICE constexpr uint8_t e4m3_from_float(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t magnitude_bits = bits & 0x7FFFFFFFU;
  const bool is_nan = magnitude_bits > 0x7F800000U;
  const uint32_t max_bits = float_bits(kE4m3Max);
  const uint32_t clamped = magnitude_bits < max_bits ? magnitude_bits : max_bits;
  // Below 2^-6 the grid is 2^-9: adding 2^14 (whose unit in the last place is 2^-9) rounds to it.
  const uint32_t subnormal = float_bits(bits_float(clamped) + 0x1p14F) - float_bits(0x1p14F);
  const uint32_t normal = ((clamped + 0x7FFFFU + ((clamped >> 20) & 1U)) >> 20) - (120U << 3);
  const uint32_t code = clamped < float_bits(0x1p-6F) ? subnormal : normal;
  return static_cast<uint8_t>(sign | (is_nan ? kE4m3Nan : code));
}

}  // namespace megamoe
