#pragma once

// BF16: the upper half of an FP32.

#include "formats/platform.hpp"

namespace megamoe {

MM_HOST_DEVICE constexpr float bf16_to_float(uint16_t bits) { return bits_float(static_cast<uint32_t>(bits) << 16); }

inline constexpr uint16_t kBf16Nan = 0x7FC0;

/// Nearest even; overflow goes to infinity. Every NaN becomes kBf16Nan: which operand's payload an addition keeps is up
/// to the compiler, so payloads would not be the same on every machine.
MM_HOST_DEVICE constexpr uint16_t bf16_from_float(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return is_nan ? kBf16Nan : static_cast<uint16_t>(rounded >> 16);
}

}  // namespace megamoe
