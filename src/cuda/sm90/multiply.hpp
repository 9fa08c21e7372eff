#pragma once

// The main loops: a tile's chunks through the tensor core. Every chunk is a fresh accumulation of four instructions,
// then promoted: total = fma(sum, row scale * weight scale, total), in chunk order. The hardware's sums do not depend
// on the width of the instruction nor on which operand is M (docs/hopper-tensor-core.md): both loops give the same
// bits.

#include "cuda/ptx/wgmma.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "cuda/sm90/math_thread.hpp"

namespace megamoe::sm90 {

/// Scales of some rows of the pool, chunk after chunk. The kSpan lanes that want the same rows, kStride apart, load one
/// chunk each and hand it to each other; the next kSpan chunks are under way meanwhile.
template <uint32_t kNumRows, uint32_t kSpan, uint32_t kStride>
class RowScales {
 public:
  /// `scales` [num_pool_rows, num_chunks], from the block's first row on; `row_of(i)`: the i-th row that this lane
  /// wants.
  template <class RowOf>
  MM_DEVICE RowScales(const float* scales, uint32_t num_chunks, uint32_t lane, RowOf row_of)
      : scales_(scales), num_chunks_(num_chunks), lane_(lane) {
    load(row_of, 0, now_);
    load(row_of, kSpan, next_);
  }
  /// To be called for every chunk in turn.
  template <class RowOf>
  MM_DEVICE void look_at(uint32_t chunk, RowOf row_of) {
    if (chunk == 0U || chunk % kSpan != 0U) return;
    MM_UNROLL
    for (uint32_t i = 0; i < kNumRows; ++i) now_[i] = next_[i];
    load(row_of, chunk + kSpan, next_);
  }
  /// The scale of the i-th row in the chunk looked at. By all lanes.
  MM_DEVICE float scale(uint32_t i, uint32_t chunk) const {
    return simt::shfl(simt::kAllLanes, now_[i], lane_ - place() * kStride + chunk % kSpan * kStride);
  }

 private:
  MM_DEVICE uint32_t place() const { return lane_ / kStride % kSpan; }

  template <class RowOf>
  MM_DEVICE void load(RowOf row_of, uint32_t first_chunk, float (&scales)[kNumRows]) const {
    const uint32_t chunk = flow::min_of(first_chunk + place(), num_chunks_ - 1U);
    MM_UNROLL
    for (uint32_t i = 0; i < kNumRows; ++i) scales[i] = simt::load(scales_ + row_of(i) * num_chunks_ + chunk);
  }

  const float* scales_;
  uint32_t num_chunks_;
  uint32_t lane_;
  float now_[kNumRows];
  float next_[kNumRows];
};

/// An operand of 128-byte rows, swizzled; `start`: a multiple of 1024 bytes.
MM_DEVICE ptx::WgmmaDescriptor operand_at(const uint8_t* start) {
  return ptx::encode({.start = simt::shared_address(start),
                      .leading_bytes = 16,
                      .stride_bytes = ptx::swizzle_pattern_bytes(ptx::Swizzle::b128),
                      .swizzle = ptx::Swizzle::b128});
}

/// The four instructions of one chunk, in flight on return.
template <uint32_t kN>
MM_DEVICE void begin_chunk(float (&sums)[kN / 2], ptx::WgmmaDescriptor a, ptx::WgmmaDescriptor b) {
  constexpr ptx::WgmmaSpec kSpec{.format = ptx::MmaFormat::e4m3, .n = kN};
  MM_UNROLL
  for (uint32_t byte = 0; byte < kChunkCols; byte += ptx::kWgmmaOperandBytes) {
    ptx::wgmma_mma_async<kSpec>(sums, ptx::advance(a, byte), ptx::advance(b, byte),
                                byte == 0U ? ptx::ScaleD::overwrite : ptx::ScaleD::accumulate);
  }
}

/// Totals of a lane in `wide`: by n tile, then as the accumulators of m64n128.
using WideTotals = float[kTileHalves][kTileRows / 2];

/// Rows are M. Group g takes rows 64 g .. 64 g + 63 of the block, one n tile after the other through one accumulator:
/// while one group promotes, the other's instructions run. REQUIRES the tile's first chunk is there. False: stopped.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn multiply_wide(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                   typename GemmWorker<kConfig>::Cursor& at, WideTotals& totals) {
  const auto ring = gemm.ring();
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const GemmOperands operands = operands_of<kConfig>(gemm.arguments(), tile.phase);
  const uint32_t num_chunks = operands.matrix.layout.num_chunks;
  const bool has_rows = me.group * kGroupRows < tile.num_rows;
  const auto row_of = [&](uint32_t i) {
    return flow::min_of(me.group * kGroupRows + me.warp * 16U + me.quad() + 8U * i, tile.num_rows - 1U);
  };
  const uint64_t first_row = uint64_t{tile.block} * gemm.arguments().dims.block_m;
  RowScales<2, 4, 1> row_scales(operands.row_scales + first_row * num_chunks, num_chunks, me.lane, row_of);
  MM_UNROLL
  for (uint32_t i = 0; i < kTileHalves * kTileRows / 2U; ++i) totals[i / (kTileRows / 2U)][i % (kTileRows / 2U)] = 0.0F;

  float sums[kTileRows / 2];
  for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) {
    if (chunk != 0U && ring.wait_filled(waiter, at) == sync::kRingStop) return false;
    if (!has_rows) {
      ring.release(at);
      at.advance();
      continue;
    }
    const uint8_t* rows = gemm.shared.activations(at.slot) + me.group * chunk_bytes(kGroupRows);
    row_scales.look_at(chunk, row_of);
    const float x[2] = {row_scales.scale(0, chunk), row_scales.scale(1, chunk)};
    MM_UNROLL
    for (uint32_t half = 0; half < kTileHalves; ++half) {
      const ScalePair w = simt::load(gemm.shared.weight_scales(at.slot, half));
      ptx::wgmma_pin(sums);
      ptx::wgmma_fence();
      begin_chunk<kTileRows>(sums, operand_at(rows), operand_at(gemm.shared.weights(at.slot, half)));
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      ptx::wgmma_pin(sums);
      if (half + 1U == kTileHalves) ring.release(at);
      const float factors[2][2] = {{mul_rn(x[0], w.even), mul_rn(x[0], w.odd)},
                                   {mul_rn(x[1], w.even), mul_rn(x[1], w.odd)}};
      MM_UNROLL
      for (uint32_t i = 0; i < kTileRows / 2U; ++i) {
        totals[half][i] = fma_rn(sums[i], factors[(i >> 1U) & 1U][(i >> 2U) & 1U], totals[half][i]);
      }
    }
    at.advance();
  }
  return true;
}

/// Totals of a lane in `small_batch` with N = kN: by m64 of the group's n tile, then as the accumulators of m64nN.
template <uint32_t kN>
using SmallTotals = float[2][kN / 2];

/// Weights are M. Group g takes the tile's g-th n tile, as two instructions of 64 rows side by side. REQUIRES as above,
/// and num_rows is at most kN. False: stopped.
template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE sync::GoOn multiply_small(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                    typename GemmWorker<kConfig>::Cursor& at, SmallTotals<kN>& totals) {
  const auto ring = gemm.ring();
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const GemmOperands operands = operands_of<kConfig>(gemm.arguments(), tile.phase);
  const uint32_t num_chunks = operands.matrix.layout.num_chunks;
  const auto row_of = [&](uint32_t i) {
    return flow::min_of(i / 2U * 8U + me.quad_lane() * 2U + i % 2U, tile.num_rows - 1U);
  };
  const uint64_t first_row = uint64_t{tile.block} * gemm.arguments().dims.block_m;
  RowScales<kN / 4, 8, 4> row_scales(operands.row_scales + first_row * num_chunks, num_chunks, me.lane, row_of);
  MM_UNROLL
  for (uint32_t i = 0; i < kN; ++i) totals[i / (kN / 2U)][i % (kN / 2U)] = 0.0F;

  float sums[2][kN / 2];
  for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) {
    if (chunk != 0U && ring.wait_filled(waiter, at) == sync::kRingStop) return false;
    const ptx::WgmmaDescriptor rows = operand_at(gemm.shared.activations(at.slot));
    const ptx::WgmmaDescriptor weights = operand_at(gemm.shared.weights(at.slot, me.group));
    ptx::wgmma_pin(sums[0]);
    ptx::wgmma_pin(sums[1]);
    ptx::wgmma_fence();
    begin_chunk<kN>(sums[0], weights, rows);
    begin_chunk<kN>(sums[1], ptx::advance(weights, chunk_bytes(kGroupRows)), rows);
    ptx::wgmma_commit_group();
    row_scales.look_at(chunk, row_of);
    const ScalePair w = simt::load(gemm.shared.weight_scales(at.slot, me.group));
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(sums[0]);
    ptx::wgmma_pin(sums[1]);
    ring.release(at);
    at.advance();
    MM_UNROLL
    for (uint32_t i = 0; i < kN / 4U; ++i) {
      const float x = row_scales.scale(i, chunk);
      const float factors[2] = {mul_rn(x, w.even), mul_rn(x, w.odd)};
      MM_UNROLL
      for (uint32_t b = 0; b < 2U; ++b) {
        const uint32_t reg = i / 2U * 4U + b * 2U + i % 2U;
        totals[0][reg] = fma_rn(sums[0][reg], factors[b], totals[0][reg]);
        totals[1][reg] = fma_rn(sums[1][reg], factors[b], totals[1][reg]);
      }
    }
  }
  return true;
}

}  // namespace megamoe::sm90
