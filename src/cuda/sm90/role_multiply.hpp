#pragma once

// The math groups: they take what the producer brings, tile by tile, multiply it and hand the result on.

#include "cuda/sm90/gemm1_epilogue.hpp"
#include "cuda/sm90/gemm2_epilogue.hpp"

namespace megamoe::sm90 {

// Who the thread is and what the tile is are looked up again where they are needed: the main loops need the registers,
// and what depends on them would otherwise be computed once, far outside, and spilled.

/// The tile that `me`'s warp is at.
template <GemmConfig kConfig>
MM_DEVICE MathTile load_tile(const GemmWorker<kConfig>& gemm, const MathThread& me) {
  const uint32_t tile_idx = simt::load(gemm.shared.at_tile + me.group * kGroupWarps + me.warp);
  const TileNote* note = gemm.note(tile_idx);
  return {flow::Phase{simt::load(&note->phase)},
          simt::load(&note->expert),
          simt::load(&note->n_block),
          simt::load(&note->block),
          simt::load(&note->num_rows),
          Owner{simt::load(&note->owner)},
          tile_idx};
}

/// From here on the calling warp is at tile `tile_idx`.
template <GemmConfig kConfig>
MM_DEVICE void enter_tile(const GemmWorker<kConfig>& gemm, uint32_t tile_idx) {
  const MathThread me = math_thread();
  simt::syncwarp();  // no lane looks at the last tile any more
  if (me.lane == 0) simt::store(gemm.shared.at_tile + me.group * kGroupWarps + me.warp, tile_idx);
  simt::syncwarp();
}

template <GemmConfig kConfig>
MM_DEVICE sync::GoOn run_wide(const GemmWorker<kConfig>& gemm) {
  WideTotals totals;
  if (!multiply_wide(gemm, math_thread(), load_tile(gemm, math_thread()), totals)) return false;
  const MathThread me = math_thread();
  const MathTile tile = load_tile(gemm, me);
  if constexpr (kConfig.phases == Phases::gemm1) {
    gemm1_epilogue_wide(gemm, me, tile, totals);
  } else {
    gemm2_epilogue_wide(gemm, me, tile, totals);
  }
  return true;
}

template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE sync::GoOn run_small(const GemmWorker<kConfig>& gemm) {
  SmallTotals<kN> totals;
  if (!multiply_small<kN>(gemm, math_thread(), load_tile(gemm, math_thread()), totals)) return false;
  const MathThread me = math_thread();
  const MathTile tile = load_tile(gemm, me);
  if constexpr (kConfig.phases == Phases::gemm1) {
    gemm1_epilogue_small<kN>(gemm, me, tile, totals);
  } else {
    gemm2_epilogue_small<kN>(gemm, me, tile, totals);
  }
  return true;
}

/// The narrowest instruction that has a column for every row.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn run_tile(const GemmWorker<kConfig>& gemm) {
  if constexpr (kConfig.strategy == Strategy::small_batch) {
    constexpr uint32_t kMaxRows = kConfig.max_block_m;
    const uint32_t num_rows = load_tile(gemm, math_thread()).num_rows;
    if (num_rows <= 8U) return run_small<8>(gemm);
    if constexpr (kMaxRows > 8U) {
      if (num_rows <= 16U) return run_small<16>(gemm);
    }
    if constexpr (kMaxRows > 16U) {
      if (num_rows <= 32U) return run_small<32>(gemm);
    }
    if constexpr (kMaxRows > 32U) {
      if (num_rows <= 64U) return run_small<64>(gemm);
    }
  }
  if constexpr (kConfig.has_wide_tiles()) return run_wide(gemm);
  return false;
}

/// Each phase has its own code: what they have in common would keep more alive than a lane has registers.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn run_tile_of_phase(const GemmWorker<kConfig>& gemm, flow::Phase phase) {
  if constexpr (kConfig.phases != Phases::both) return run_tile(gemm);
  return phase == flow::Phase::gemm1 ? run_tile(gemm.template only<Phases::gemm1>())
                                     : run_tile(gemm.template only<Phases::gemm2>());
}

/// All threads of the math groups, until the producer says stop.
template <GemmConfig kConfig>
MM_DEVICE void role_multiply(const GemmWorker<kConfig>& gemm) {
  const auto note_ring = gemm.note_ring();
  const sync::Waiter waiter = gemm.waiter(flow::Phase::gemm1);
  for (uint32_t next = 0;; ++next) {
    const uint32_t tile_idx = note_ring.wait_filled(waiter, gemm.note_cursor(next));
    if (tile_idx == sync::kRingStop) return;
    const Owner owner{simt::load(&gemm.note(tile_idx)->owner)};
    if (owner == Owner::both || static_cast<uint32_t>(owner) == math_thread().group) {
      enter_tile(gemm, tile_idx);
      if (!run_tile_of_phase(gemm, flow::Phase{simt::load(&gemm.note(tile_idx)->phase)})) return;
    }
    note_ring.release(gemm.note_cursor(next));
  }
}

}  // namespace megamoe::sm90
