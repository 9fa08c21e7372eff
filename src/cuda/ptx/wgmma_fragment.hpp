#pragma once

// Which elements of A and D the registers of a lane hold. A fragment rule counts bytes, so e4m3 and bf16 share it.

#include <cstdint>

#include "formats/platform.hpp"

namespace megamoe::ptx {

/// Row of D that register `i` of `lane` (0 to 127 in its warpgroup) holds, 0 to 63.
MM_HOST_DEVICE constexpr uint32_t d_row(uint32_t lane, uint32_t i) {
  return (lane / 32U) * 16U + (lane % 32U) / 4U + ((i >> 1U) & 1U) * 8U;
}

/// Column of D that register `i` of `lane` holds, 0 to n - 1 for i below n / 2.
MM_HOST_DEVICE constexpr uint32_t d_column(uint32_t lane, uint32_t i) {
  return (i >> 2U) * 8U + (lane % 4U) * 2U + (i & 1U);
}

/// Row of A that register `r` (0 to 3) of `lane` holds.
MM_HOST_DEVICE constexpr uint32_t a_row(uint32_t lane, uint32_t r) {
  return (lane / 32U) * 16U + (lane % 32U) / 4U + (r & 1U) * 8U;
}

/// First of the four consecutive bytes of that row that register `r` holds, 0 to 28.
MM_HOST_DEVICE constexpr uint32_t a_byte(uint32_t lane, uint32_t r) { return (lane % 4U) * 4U + (r >> 1U) * 16U; }

}  // namespace megamoe::ptx
