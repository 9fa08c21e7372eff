#pragma once

// The weights of a rank's experts as the kernels read them: host and device.
//
// Both matrices have one layout. The output columns are rows; 128 of them are an n tile. Two n tiles are what a block
// multiplies at a time: they stand chunk by chunk, both n tiles' 128 rows x 128 columns of K side by side, each as
// tile_layout.hpp has it: 32 KiB in one piece. Rows and columns that fill up the last n tile and the last chunk are
// zeros; where the number of n tiles is odd, the last one stands alone.
//
// gemm1's rows are gate and up columns, eight of each in turn: an n tile holds 64 columns of the intermediate, gate in
// the 8-row groups with even number, up in the odd ones. So one accumulator holds both, the same lane the two that
// belong together. gemm2's rows are the columns of hidden in order.

#include <cstdint>

#include "cuda/sm90/tile_layout.hpp"

namespace megamoe::sm90 {

/// Weight rows of one n tile.
inline constexpr uint32_t kTileRows = 128;
/// n tiles that a block multiplies at a time.
inline constexpr uint32_t kTileHalves = 2;
/// Rows of gate, then of up, in turn.
inline constexpr uint32_t kGateUpRows = 8;
/// Columns of the intermediate in one n tile of gemm1.
inline constexpr uint32_t kTileIntermediate = kTileRows / 2;

/// Scales of one n tile and chunk: of its 8-row groups with even number, and of those with odd number. gemm1: gate and
/// up; gemm2: the same one twice. As large as the smallest bulk copy: they travel with the codes.
struct alignas(16) ScalePair {
  float even;
  float odd;
};

/// How large one expert's packed matrix is.
struct MatrixLayout {
  uint32_t num_n_tiles = 0;
  uint32_t num_chunks = 0;

  MM_HOST_DEVICE static constexpr MatrixLayout gemm1(uint32_t hidden, uint32_t intermediate) {
    // Whole quantisation groups of the intermediate: gemm1's tile makes 128 columns of it, out of two n tiles.
    return {2U * flow::ceil_div(intermediate, kChunkCols), flow::ceil_div(hidden, kChunkCols)};
  }
  MM_HOST_DEVICE static constexpr MatrixLayout gemm2(uint32_t hidden, uint32_t intermediate) {
    return {flow::ceil_div(hidden, kTileRows), flow::ceil_div(intermediate, kChunkCols)};
  }

  MM_HOST_DEVICE constexpr uint32_t num_rows() const { return num_n_tiles * kTileRows; }
  MM_HOST_DEVICE constexpr uint64_t num_scales() const { return uint64_t{num_n_tiles} * num_chunks; }
  MM_HOST_DEVICE constexpr uint64_t code_bytes() const { return num_scales() * chunk_bytes(kTileRows); }
  /// n tiles of the pair that begins with the even n tile `n_tile`: 2, or 1 at the end of an odd number.
  MM_HOST_DEVICE constexpr uint32_t pair_size(uint32_t n_tile) const {
    return flow::min_of(kTileHalves, num_n_tiles - n_tile);
  }
  /// Number of an n tile's chunk among all of the expert: its ScalePair, and its codes chunk_bytes(kTileRows) each.
  MM_HOST_DEVICE constexpr uint64_t chunk_idx(uint32_t n_tile, uint32_t chunk) const {
    const uint32_t half = n_tile % kTileHalves;
    const uint32_t first = n_tile - half;
    return uint64_t{first} * num_chunks + uint64_t{chunk} * pair_size(first) + half;
  }
};

/// One matrix of all local experts of a rank, one expert after the other.
struct PackedMatrix {
  MatrixLayout layout;
  const uint8_t* codes = nullptr;  // [num_local][n tile pair][chunk][n tile][128 rows, 128], swizzled; 16-byte aligned
  const ScalePair* scales = nullptr;  // [num_local][n tile pair][chunk][n tile]
  const float* bias = nullptr;        // [num_local, layout.num_rows()], zeros where an expert has none; or null
};

}  // namespace megamoe::sm90
