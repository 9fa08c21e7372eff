#pragma once

// The 64-bit word that tells wgmma where an operand stands in shared memory.

#include <cstdint>

#include "cuda/ptx/swizzle.hpp"
#include "formats/platform.hpp"

namespace megamoe::ptx {

/// An encoded MatrixPlace.
enum class WgmmaDescriptor : uint64_t {};

/// Where an operand stands. Chunks are 16 bytes, rows are rows of A or columns of B ("MN"); W = swizzle_row_bytes.
///
///   K-major, no swizzle:   8 rows 16 bytes apart; next chunk along K after leading_bytes, next 8 rows after
///   stride_bytes K-major, swizzled:     8 rows W bytes apart; next chunk along K after 16 bytes, next 8 rows after
///   stride_bytes MN-major, no swizzle:  8 values of K 16 bytes apart; next chunk along MN after stride_bytes, next 8
///   values of K
///                          after leading_bytes
///   MN-major, swizzled:    8 values of K W bytes apart; next chunk along MN after 16 bytes while it is in the same W
///                          bytes, else after leading_bytes; next 8 values of K after stride_bytes
struct MatrixPlace {
  uint32_t start;          // shared-memory address of the first chunk in bytes, a multiple of 16 below 2^18
  uint32_t leading_bytes;  // a multiple of 16 below 2^18; unused for swizzled K-major operands
  uint32_t stride_bytes;   // a multiple of 16 below 2^18
  Swizzle swizzle = Swizzle::none;
  uint32_t base_offset = 0;  // (address of the pattern's start >> 7) & 7; 0 where patterns are aligned to their size

  friend bool operator==(const MatrixPlace&, const MatrixPlace&) = default;
};

namespace detail {
inline constexpr uint32_t kDescriptorFieldMask = 0x3FFFU;
MM_HOST_DEVICE constexpr uint64_t to_chunks(uint32_t bytes) { return (bytes >> 4U) & kDescriptorFieldMask; }
MM_HOST_DEVICE constexpr uint32_t from_chunks(uint64_t field) {
  return (static_cast<uint32_t>(field) & kDescriptorFieldMask) << 4U;
}
}  // namespace detail

MM_HOST_DEVICE constexpr WgmmaDescriptor encode(const MatrixPlace& place) {
  // The hardware numbers the modes from the widest down: 0 none, 1 b128, 2 b64, 3 b32.
  const uint64_t mode = (4U - static_cast<uint32_t>(place.swizzle)) & 3U;
  return WgmmaDescriptor{detail::to_chunks(place.start) | detail::to_chunks(place.leading_bytes) << 16U |
                         detail::to_chunks(place.stride_bytes) << 32U | uint64_t{place.base_offset & 7U} << 49U |
                         mode << 62U};
}

MM_HOST_DEVICE constexpr MatrixPlace decode(WgmmaDescriptor descriptor) {
  const auto bits = static_cast<uint64_t>(descriptor);
  return {.start = detail::from_chunks(bits),
          .leading_bytes = detail::from_chunks(bits >> 16U),
          .stride_bytes = detail::from_chunks(bits >> 32U),
          .swizzle = static_cast<Swizzle>((4U - static_cast<uint32_t>(bits >> 62U)) & 3U),
          .base_offset = static_cast<uint32_t>(bits >> 49U) & 7U};
}

/// The same operand `bytes` further on: the next K step inside a swizzled row, or the next stage of a ring.
/// `bytes` is a multiple of 16, and the new start stays below 2^18.
MM_HOST_DEVICE constexpr WgmmaDescriptor advance(WgmmaDescriptor descriptor, uint32_t bytes) {
  // The start stands in the low word, which does not overflow.
  const auto bits = static_cast<uint64_t>(descriptor);
  return WgmmaDescriptor{(bits >> 32U << 32U) | (static_cast<uint32_t>(bits) + (bytes >> 4U))};
}

}  // namespace megamoe::ptx
