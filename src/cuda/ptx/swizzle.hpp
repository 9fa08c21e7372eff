#pragma once

// The four ways in which tensor copies and wgmma permute 16-byte chunks of shared memory.

#include <cstdint>

#include "formats/platform.hpp"

namespace megamoe::ptx {

/// Named by the bytes of one row of the pattern; eight rows make one pattern of 256, 512 or 1024 bytes.
enum class Swizzle : uint8_t { none, b32, b64, b128 };

/// Bytes in one row of the pattern: 16 (one chunk: nothing is permuted), 32, 64 or 128.
MM_HOST_DEVICE constexpr uint32_t swizzle_row_bytes(Swizzle swizzle) { return 16U << static_cast<uint32_t>(swizzle); }

/// Bytes after which the pattern repeats, and to which a matrix with base offset 0 is aligned.
MM_HOST_DEVICE constexpr uint32_t swizzle_pattern_bytes(Swizzle swizzle) { return 8U * swizzle_row_bytes(swizzle); }

/// Where the byte at `byte_offset` of a plain row-major pattern stands in the swizzled one: address bits 4.. are XORed
/// with bits 7.., one bit for b32, two for b64, three for b128. Its own inverse; offsets count from a pattern's start.
MM_HOST_DEVICE constexpr uint32_t swizzled_offset(Swizzle swizzle, uint32_t byte_offset) {
  const uint32_t chunk_mask = swizzle_row_bytes(swizzle) - 16U;
  return byte_offset ^ ((byte_offset >> 3U) & chunk_mask);
}

}  // namespace megamoe::ptx
