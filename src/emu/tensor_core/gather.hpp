#pragma once

// Which 16-byte chunks of shared memory an operand of wgmma is made of, and the operand as plain rows.

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/ptx/wgmma_descriptor.hpp"
#include "cuda/ptx/wgmma_shape.hpp"

namespace megamoe::emu::tensor_core {

inline constexpr uint32_t kChunkBytes = 16;
inline constexpr uint32_t kSharedWindowBytes = 256U << 10U;  // what a descriptor's start address can reach

/// Shared memory as a descriptor sees it.
struct SharedView {
  const std::byte* window;  // the byte at shared-memory address 0
  uint32_t begin;           // addresses from here to `end` may be read
  uint32_t end;
};

/// One operand: rows of A or columns of B, each 32 bytes along K.
struct OperandRows {
  uint32_t num_rows;  // 64, or n
  std::array<uint8_t, std::size_t{ptx::kMaxWgmmaColumns} * ptx::kWgmmaOperandBytes> bytes;
};

/// Address of a K-major operand's chunk: bytes 16 * half to 16 * half + 15 of `row`. Wraps at the end of the window.
uint32_t k_major_chunk(const ptx::MatrixPlace& place, uint32_t row, uint32_t half);

/// Address of an MN-major operand's chunk: rows 8 * row_block to 8 * row_block + 7 at `k`.
uint32_t mn_major_chunk(const ptx::MatrixPlace& place, uint32_t row_block, uint32_t k);

/// Calls visit(address) for every chunk of an operand with `num_rows` rows.
template <class Visit>
void for_each_chunk(const ptx::MatrixPlace& place, ptx::Major major, uint32_t num_rows, Visit visit) {
  if (major == ptx::Major::k) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      for (uint32_t half = 0; half < 2; ++half) visit(k_major_chunk(place, row, half));
    }
    return;
  }
  for (uint32_t block = 0; block < num_rows / 8; ++block) {
    for (uint32_t k = 0; k < ptx::wgmma_k(ptx::MmaFormat::bf16); ++k) visit(mn_major_chunk(place, block, k));
  }
}

/// Whether every chunk lies in the view; if not, `first_outside` is the address of one that does not.
bool is_inside(const SharedView& view, const ptx::MatrixPlace& place, ptx::Major major, uint32_t num_rows,
               uint32_t& first_outside);

/// Reads an operand. REQUIRES: is_inside(view, place, major, rows.num_rows).
void gather(const SharedView& view, const ptx::MatrixPlace& place, ptx::Major major, OperandRows& rows);

/// A out of the registers of 128 lanes, registers[lane] being four words.
void gather_fragments(const uint32_t* const (&registers)[ptx::kWarpgroupLanes], OperandRows& rows);

}  // namespace megamoe::emu::tensor_core
