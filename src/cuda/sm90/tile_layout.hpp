#pragma once

// How the operands of the tensor core lie in global memory: in tiles that are already what wgmma reads from shared
// memory, so that a plain copy of contiguous bytes brings them there.
//
// A chunk is 128 columns of K, 128 bytes of e4m3. A tile is a number of rows over all chunks: chunk by chunk, row by
// row inside a chunk, and the eight 16-byte pieces of a row permuted by the row as the 128-byte swizzle has it. Rows of
// the workspace's pool_x and act stand in tiles of one pool block each, and so do their scales: chunk by chunk, one per
// row.

#include <cstdint>

#include "flow/dims.hpp"

namespace megamoe::sm90 {

inline constexpr uint32_t kChunkCols = 128;
inline constexpr uint32_t kPieceBytes = 16;
inline constexpr uint32_t kChunkPieces = kChunkCols / kPieceBytes;  ///< of one row
static_assert(kChunkCols == flow::kScaleGroup, "one activation scale per row and chunk");

/// Bytes of one chunk of a tile of `num_rows` rows.
MM_HOST_DEVICE constexpr uint32_t chunk_bytes(uint32_t num_rows) { return num_rows * kChunkCols; }

/// Where piece `piece` of row `row`, columns 16 * piece .. 16 * piece + 15, stands in a tile of `num_rows` rows: bytes
/// from the tile's start.
MM_HOST_DEVICE constexpr uint32_t tile_offset(uint32_t num_rows, uint32_t row, uint32_t piece) {
  const uint32_t place = (piece % kChunkPieces) ^ (row % kChunkPieces);
  return piece / kChunkPieces * chunk_bytes(num_rows) + row * kChunkCols + place * kPieceBytes;
}

/// Where the scale of row `row` and chunk `chunk` stands in a tile of `num_rows` rows: elements from the tile's first.
MM_HOST_DEVICE constexpr uint32_t scale_offset(uint32_t num_rows, uint32_t row, uint32_t chunk) {
  return chunk * num_rows + row;
}
/// Scales that a bulk copy brings for `num_rows` rows of a chunk: whole 16 bytes.
MM_HOST_DEVICE constexpr uint32_t copied_scales(uint32_t num_rows) {
  constexpr uint32_t kPieceScales = kPieceBytes / sizeof(float);
  return flow::ceil_div(num_rows, kPieceScales) * kPieceScales;
}

}  // namespace megamoe::sm90
