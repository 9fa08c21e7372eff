#pragma once

// The math groups: they take what the producer brings, tile by tile, multiply it and hand the result on.

#include "cuda/sm90/gemm1_epilogue.hpp"
#include "cuda/sm90/gemm2_epilogue.hpp"

namespace megamoe::sm90 {

template <GemmConfig kConfig>
MM_DEVICE MathTile load_tile(const GemmWorker<kConfig>& gemm, uint32_t tile_idx) {
  const TileNote* note = gemm.shared.notes + tile_idx % kTileSlots;
  return {flow::Phase{simt::load(&note->phase)},
          simt::load(&note->expert),
          simt::load(&note->n_block),
          simt::load(&note->block),
          simt::load(&note->num_rows),
          tile_idx};
}

// Who the thread is and what the tile is are asked anew where they are needed: the main loops need the registers, and
// what depends on them would otherwise be computed once, far outside, and spilled.

template <GemmConfig kConfig>
MM_DEVICE sync::GoOn run_wide(const GemmWorker<kConfig>& gemm, const MathTile& multiplied,
                              typename GemmWorker<kConfig>::Cursor& at) {
  WideTotals totals;
  if (!multiply_wide(gemm, math_thread(), multiplied, at, totals)) return false;
  const MathTile tile = load_tile(gemm, multiplied.tile_idx);
  const MathThread me = math_thread();
  if constexpr (kConfig.phases != Phases::gemm2) {
    if (is_gemm1<kConfig>(tile.phase)) gemm1_epilogue_wide(gemm, me, tile, totals);
  }
  if constexpr (kConfig.phases != Phases::gemm1) {
    if (!is_gemm1<kConfig>(tile.phase)) gemm2_epilogue_wide(gemm, me, tile, totals);
  }
  return true;
}

template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE sync::GoOn run_small(const GemmWorker<kConfig>& gemm, const MathTile& multiplied,
                               typename GemmWorker<kConfig>::Cursor& at) {
  SmallTotals<kN> totals;
  if (!multiply_small<kN>(gemm, math_thread(), multiplied, at, totals)) return false;
  const MathTile tile = load_tile(gemm, multiplied.tile_idx);
  const MathThread me = math_thread();
  if constexpr (kConfig.phases != Phases::gemm2) {
    if (is_gemm1<kConfig>(tile.phase)) gemm1_epilogue_small<kN>(gemm, me, tile, totals);
  }
  if constexpr (kConfig.phases != Phases::gemm1) {
    if (!is_gemm1<kConfig>(tile.phase)) gemm2_epilogue_small<kN>(gemm, me, tile, totals);
  }
  return true;
}

/// The narrowest instruction that has a column for every row.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn run_tile(const GemmWorker<kConfig>& gemm, const MathTile& tile,
                              typename GemmWorker<kConfig>::Cursor& at) {
  if constexpr (kConfig.strategy == Strategy::small_batch) {
    constexpr uint32_t kMaxRows = kConfig.max_block_m;
    if (tile.num_rows <= 8U) return run_small<8>(gemm, tile, at);
    if constexpr (kMaxRows > 8U) {
      if (tile.num_rows <= 16U) return run_small<16>(gemm, tile, at);
    }
    if constexpr (kMaxRows > 16U) {
      if (tile.num_rows <= 32U) return run_small<32>(gemm, tile, at);
    }
    if constexpr (kMaxRows > 32U) {
      if (tile.num_rows <= 64U) return run_small<64>(gemm, tile, at);
    }
  }
  if constexpr (kConfig.has_wide_tiles()) return run_wide(gemm, tile, at);
  return false;
}

/// All threads of the math groups, until the producer says stop.
template <GemmConfig kConfig>
MM_DEVICE void role_multiply(const GemmWorker<kConfig>& gemm) {
  const auto ring = gemm.ring();
  const sync::Waiter waiter = gemm.waiter(flow::Phase::gemm1);
  typename GemmWorker<kConfig>::Cursor at;
  uint32_t tile_idx = 0;
  while (ring.wait_filled(waiter, at) != sync::kRingStop) {
    const MathTile tile = load_tile(gemm, tile_idx);
    if (!run_tile(gemm, tile, at)) return;
    ++tile_idx;
  }
}

}  // namespace megamoe::sm90
