#pragma once

// The main loops: a tile's chunks through the tensor core. Every chunk is a fresh accumulation of four instructions,
// then promoted: total = fma(sum, row scale * weight scale, total), in chunk order. The hardware's sums do not depend
// on the width of the instruction nor on which operand is M (docs/hopper-tensor-core.md): both loops give the same
// bits.

#include "cuda/ptx/matrix_load.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "cuda/sm90/math_thread.hpp"

namespace megamoe::sm90 {

/// An operand of 128-byte rows, swizzled; `start`: a multiple of 1024 bytes, the same in all lanes. A shuffle's result
/// is known to be that: descriptors derived from it stay in uniform registers, where the instruction wants them.
MM_DEVICE ptx::WgmmaDescriptor operand_at(const uint8_t* start) {
  const uint32_t address = simt::shfl(simt::kAllLanes, simt::shared_address(start), 0);
  return ptx::encode({.start = address,
                      .leading_bytes = 16,
                      .stride_bytes = ptx::swizzle_pattern_bytes(ptx::Swizzle::b128),
                      .swizzle = ptx::Swizzle::b128});
}

/// The ring's item that holds the tile's first chunk.
template <GemmConfig kConfig>
MM_DEVICE typename GemmWorker<kConfig>::Cursor first_chunk(const GemmWorker<kConfig>& gemm, const MathTile& tile) {
  const TileNote* note = gemm.note(tile.tile_idx);
  return {simt::load(&note->first_slot), simt::load(&note->first_round)};
}

/// Until the tile's `chunk`-th chunk is there. The slots of the first ones held chunks of other tiles before, perhaps
/// of the other group's. False: stopped.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn wait_for_chunk(const GemmWorker<kConfig>& gemm, const sync::Waiter& waiter, uint32_t chunk,
                                    const typename GemmWorker<kConfig>::Cursor& at) {
  const auto ring = gemm.ring();
  const bool is_early = chunk < kConfig.num_slots();
  return (is_early ? ring.wait_filled_after_others(waiter, at) : ring.wait_filled(waiter, at)) != sync::kRingStop;
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

/// Where rows of the pool are M: totals of a lane, by n tile, then as the accumulators of m64n128.
using WideTotals = float[kTileHalves][kTileRows / 2];

/// Columns of one instruction there. Two accumulators fit: one is promoted while the other's instructions run.
inline constexpr uint32_t kWideN = 64;
inline constexpr uint32_t kQuarterValues = kWideN / 2;
inline constexpr uint32_t kQuartersPerHalf = kTileRows / kWideN;
inline constexpr uint32_t kNumQuarters = kTileHalves * kQuartersPerHalf;
inline constexpr uint32_t kChunkSteps = kChunkCols / ptx::kWgmmaOperandBytes;

/// A lane's part of 64 rows of one chunk, as the instruction wants A in registers: shared memory could not feed both
/// operands of so narrow instructions.
using RowFragments = uint32_t[kChunkSteps][4];

/// Where the calling lane's row of the four matrices of a step stands: rows 0 .. 7 and 8 .. 15 of the warp's 16, first
/// and second 16 bytes. Beyond the last of `num_rows` rows of the block, that one: what comes of it goes nowhere.
MM_DEVICE uint32_t fragment_offset(const MathThread& me, uint32_t first_row, uint32_t num_rows) {
  const uint32_t row = flow::min_of(first_row + me.lane % 16U, num_rows - 1U);
  return tile_offset(0, row, me.lane / 16U);
}

/// `rows`: the block's rows of a chunk, swizzled.
MM_DEVICE void load_fragments(const uint8_t* rows, uint32_t offset, RowFragments& fragments) {
  MM_UNROLL
  for (uint32_t step = 0; step < kChunkSteps; ++step) {
    // The swizzle permutes pieces by exclusive or.
    ptx::load_matrices(rows + (offset ^ step * ptx::kWgmmaOperandBytes), fragments[step]);
  }
}

/// The instructions of one chunk for a quarter of the tile's columns: one group, in flight on return.
MM_DEVICE void begin_quarter(float (&sums)[kQuarterValues], const RowFragments& rows, ptx::WgmmaDescriptor weights) {
  constexpr ptx::WgmmaSpec kSpec{.format = ptx::MmaFormat::e4m3, .n = kWideN};
  ptx::wgmma_pin(sums);
  ptx::wgmma_fence();
  MM_UNROLL
  for (uint32_t step = 0; step < kChunkSteps; ++step) {
    ptx::wgmma_mma_async<kSpec>(sums, rows[step], ptx::advance(weights, step * ptx::kWgmmaOperandBytes),
                                step == 0U ? ptx::ScaleD::overwrite : ptx::ScaleD::accumulate);
  }
  ptx::wgmma_commit_group();
}

/// Adds the scaled sums of a quarter to its totals. `x`: scales of the lane's two rows; `w`: of the quarter's columns.
MM_DEVICE void promote_quarter(float (&sums)[kQuarterValues], const float (&x)[2], const ScalePair& w, float* totals) {
  ptx::wgmma_pin(sums);
  const float factors[2][2] = {{mul_rn(x[0], w.even), mul_rn(x[0], w.odd)},
                               {mul_rn(x[1], w.even), mul_rn(x[1], w.odd)}};
  MM_UNROLL
  for (uint32_t i = 0; i < kQuarterValues; ++i) {
    totals[i] = fma_rn(sums[i], factors[(i >> 1U) & 1U][(i >> 2U) & 1U], totals[i]);
  }
}

/// What a chunk's products are scaled with: of a lane's rows, and of the columns.
struct ChunkScales {
  float x[2];
  ScalePair w[kTileHalves];
};

template <class Shared>
MM_DEVICE ChunkScales load_scales(const Shared& shared, uint32_t slot, uint32_t row, uint32_t num_rows) {
  const float* x = shared.scales_of_rows(slot);
  const uint32_t last = num_rows - 1U;
  return {{simt::load(x + flow::min_of(row, last)), simt::load(x + flow::min_of(row + 8U, last))},
          {simt::load(shared.weight_scales(slot, 0)), simt::load(shared.weight_scales(slot, 1))}};
}

/// The quarters of a chunk but the first, whose instructions run already, and the promotion of all but the last, whose
/// instructions run on return.
MM_DEVICE void multiply_chunk(float (&sums)[2][kQuarterValues], const RowFragments& rows, ptx::WgmmaDescriptor weights,
                              const ChunkScales& scales, WideTotals& totals) {
  MM_UNROLL
  for (uint32_t quarter = 0; quarter < kNumQuarters - 1U; ++quarter) {
    begin_quarter(sums[(quarter + 1U) % 2U], rows, ptx::advance(weights, (quarter + 1U) * chunk_bytes(kWideN)));
    ptx::wgmma_wait_group<1>();
    promote_quarter(sums[quarter % 2U], scales.x, scales.w[quarter / kQuartersPerHalf],
                    totals[quarter / kQuartersPerHalf] + quarter % kQuartersPerHalf * kQuarterValues);
  }
}
MM_DEVICE void promote_last_quarter(float (&sums)[2][kQuarterValues], const ChunkScales& scales, WideTotals& totals) {
  promote_quarter(sums[(kNumQuarters - 1U) % 2U], scales.x, scales.w[kTileHalves - 1U],
                  totals[kTileHalves - 1U] + (kQuartersPerHalf - 1U) * kQuarterValues);
}

/// Rows are M: a group's 64 rows of the block by a quarter of the columns after the other, through two accumulators:
/// while one is promoted, the other's instructions run, across the end of a chunk as well. False: stopped.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn multiply_wide(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                   WideTotals& totals) {
  const auto ring = gemm.ring();
  const auto& shared = gemm.shared;
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const uint32_t num_chunks = operands_of<kConfig>(gemm.arguments(), tile.phase).matrix.layout.num_chunks;
  const uint32_t first_row = tile.first_row(me);
  const uint32_t offset = fragment_offset(me, first_row, tile.num_rows);
  MM_UNROLL
  for (uint32_t i = 0; i < kTileHalves * kTileRows / 2U; ++i) totals[i / (kTileRows / 2U)][i % (kTileRows / 2U)] = 0.0F;

  auto at = first_chunk(gemm, tile);
  if (!wait_for_chunk(gemm, waiter, 0, at)) return false;
  float sums[2][kQuarterValues];
  RowFragments rows;
  load_fragments(shared.activations(at.slot), offset, rows);
  ptx::WgmmaDescriptor weights = operand_at(shared.weights(at.slot, 0));
  begin_quarter(sums[0], rows, weights);
  for (uint32_t chunk = 1; chunk < num_chunks; ++chunk) {
    const ChunkScales scales = load_scales(shared, at.slot, first_row + me.quad(), tile.num_rows);
    multiply_chunk(sums, rows, weights, scales, totals);
    const auto last = at;
    at.advance();
    const sync::GoOn go_on = wait_for_chunk(gemm, waiter, chunk, at);
    // The registers of A are free again only when all that reads them is done.
    ptx::wgmma_wait_group<0>();
    if (!go_on) return false;
    load_fragments(shared.activations(at.slot), offset, rows);
    weights = operand_at(shared.weights(at.slot, 0));
    begin_quarter(sums[0], rows, weights);
    ring.release(last, tile.warps_per_release());
    promote_last_quarter(sums, scales, totals);
  }
  const ChunkScales scales = load_scales(shared, at.slot, first_row + me.quad(), tile.num_rows);
  multiply_chunk(sums, rows, weights, scales, totals);
  ptx::wgmma_wait_group<0>();
  ring.release(at, tile.warps_per_release());
  promote_last_quarter(sums, scales, totals);
  return true;
}

/// Where weights are M, N = kN: totals of a lane, by m64 of the group's n tile, then as the accumulators of m64nN.
template <uint32_t kN>
using SmallTotals = float[2][kN / 2];

/// Weights are M. Group g takes the tile's g-th n tile, as two instructions of 64 rows side by side. REQUIRES num_rows
/// is at most kN. False: stopped.
template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE sync::GoOn multiply_small(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                    SmallTotals<kN>& totals) {
  const auto ring = gemm.ring();
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const uint32_t num_chunks = operands_of<kConfig>(gemm.arguments(), tile.phase).matrix.layout.num_chunks;
  MM_UNROLL
  for (uint32_t i = 0; i < kN; ++i) totals[i / (kN / 2U)][i % (kN / 2U)] = 0.0F;

  float sums[2][kN / 2];
  auto at = first_chunk(gemm, tile);
  for (uint32_t chunk = 0; chunk < num_chunks; ++chunk, at.advance()) {
    if (!wait_for_chunk(gemm, waiter, chunk, at)) return false;
    const ptx::WgmmaDescriptor rows = operand_at(gemm.shared.activations(at.slot));
    const ptx::WgmmaDescriptor weights = operand_at(gemm.shared.weights(at.slot, me.group));
    ptx::wgmma_pin(sums[0]);
    ptx::wgmma_pin(sums[1]);
    ptx::wgmma_fence();
    begin_chunk<kN>(sums[0], weights, rows);
    begin_chunk<kN>(sums[1], ptx::advance(weights, chunk_bytes(kGroupRows)), rows);
    ptx::wgmma_commit_group();
    const float* scales = gemm.shared.scales_of_rows(at.slot);
    const ScalePair w = simt::load(gemm.shared.weight_scales(at.slot, me.group));
    float x[kN / 4];
    MM_UNROLL
    for (uint32_t i = 0; i < kN / 4U; ++i) {
      x[i] = simt::load(scales + flow::min_of(i / 2U * 8U + me.quad_lane() * 2U + i % 2U, tile.num_rows - 1U));
    }
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(sums[0]);
    ptx::wgmma_pin(sums[1]);
    ring.release(at);
    MM_UNROLL
    for (uint32_t i = 0; i < kN / 4U; ++i) {
      const float factors[2] = {mul_rn(x[i], w.even), mul_rn(x[i], w.odd)};
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
