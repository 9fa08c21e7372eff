#pragma once

// E8M0: a power-of-two scale, 2^(code - 127). Code 255 is NaN; code 0 is 2^-127 (an FP32 subnormal).

#include "formats/platform.hpp"

namespace megamoe {

MM_HOST_DEVICE constexpr float e8m0_to_float(uint8_t code) {
  const uint32_t bits = static_cast<uint32_t>(code) << 23;
  return code == 0U ? bits_float(0x00400000U) : code == 255U ? bits_float(0x7FC00000U) : bits_float(bits);
}

/// The smallest power of two that is not below `value`. REQUIRES value is a positive normal number, at most 2^127.
MM_HOST_DEVICE constexpr float power_of_two_ceil(float value) {
  return bits_float((float_bits(value) + 0x7FFFFFU) & 0x7F800000U);
}

/// Code of an exact power of two. REQUIRES value is 2^-127..2^127.
MM_HOST_DEVICE constexpr uint8_t e8m0_from_power_of_two(float value) {
  return static_cast<uint8_t>(float_bits(value) >> 23);
}

}  // namespace megamoe
