#include "emu/tensor_core/gather.hpp"

#include <cstring>

#include "cuda/ptx/wgmma_fragment.hpp"

namespace megamoe::emu::tensor_core {

namespace {

/// The hardware adds offsets to the start first and permutes the sum: chunk bits are XORed with bits 7.. of the
/// address, counted from a pattern that starts `base_offset` times 128 bytes further on.
uint32_t permuted(const ptx::MatrixPlace& place, uint32_t offset) {
  const uint32_t address = place.start + offset;
  const uint32_t pattern_shift = place.base_offset << 7U;
  const uint32_t moved = ptx::swizzled_offset(place.swizzle, address - pattern_shift) ^ (address - pattern_shift);
  return (address ^ moved) % kSharedWindowBytes;
}

}  // namespace

uint32_t k_major_chunk(const ptx::MatrixPlace& place, uint32_t row, uint32_t half) {
  const uint32_t half_bytes = place.swizzle == ptx::Swizzle::none ? place.leading_bytes : kChunkBytes;
  return permuted(place,
                  row / 8U * place.stride_bytes + row % 8U * ptx::swizzle_row_bytes(place.swizzle) + half * half_bytes);
}

uint32_t mn_major_chunk(const ptx::MatrixPlace& place, uint32_t row_block, uint32_t k) {
  const uint32_t row_bytes = ptx::swizzle_row_bytes(place.swizzle);
  if (place.swizzle == ptx::Swizzle::none) {
    return permuted(place, row_block * place.stride_bytes + k / 8U * place.leading_bytes + k % 8U * row_bytes);
  }
  const uint32_t num_chunks = row_bytes / kChunkBytes;
  return permuted(place, row_block / num_chunks * place.leading_bytes + row_block % num_chunks * kChunkBytes +
                             k / 8U * place.stride_bytes + k % 8U * row_bytes);
}

bool is_inside(const SharedView& view, const ptx::MatrixPlace& place, ptx::Major major, uint32_t num_rows,
               uint32_t& first_outside) {
  bool result = true;
  for_each_chunk(place, major, num_rows, [&](uint32_t address) {
    if (address >= view.begin && address + kChunkBytes <= view.end) return;
    if (result) first_outside = address;
    result = false;
  });
  return result;
}

void gather(const SharedView& view, const ptx::MatrixPlace& place, ptx::Major major, OperandRows& rows) {
  if (major == ptx::Major::k) {
    for (uint32_t row = 0; row < rows.num_rows; ++row) {
      for (uint32_t half = 0; half < 2; ++half) {
        std::memcpy(rows.bytes.data() + size_t{row} * ptx::kWgmmaOperandBytes + size_t{half} * kChunkBytes,
                    view.window + k_major_chunk(place, row, half), kChunkBytes);
      }
    }
    return;
  }
  constexpr uint32_t kElementBytes = ptx::element_bytes(ptx::MmaFormat::bf16);
  for (uint32_t row = 0; row < rows.num_rows; ++row) {
    for (uint32_t k = 0; k < ptx::wgmma_k(ptx::MmaFormat::bf16); ++k) {
      std::memcpy(rows.bytes.data() + size_t{row} * ptx::kWgmmaOperandBytes + size_t{k} * kElementBytes,
                  view.window + mn_major_chunk(place, row / 8U, k) + size_t{row % 8U} * kElementBytes, kElementBytes);
    }
  }
}

void gather_fragments(const uint32_t* const (&registers)[ptx::kWarpgroupLanes], OperandRows& rows) {
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    for (uint32_t r = 0; r < 4; ++r) {
      std::memcpy(rows.bytes.data() + size_t{ptx::a_row(lane, r)} * ptx::kWgmmaOperandBytes + ptx::a_byte(lane, r),
                  registers[lane] + r, sizeof(uint32_t));
    }
  }
}

}  // namespace megamoe::emu::tensor_core
