#pragma once

// Who a thread is among those that multiply, what it multiplies, and what lanes exchange.

#include "cuda/sm90/gemm_plan.hpp"

namespace megamoe::sm90 {

struct MathThread {
  uint32_t group = 0;  ///< 0 .. kNumMathGroups - 1
  uint32_t warp = 0;   ///< in its group
  uint32_t lane = 0;   ///< in its warp

  // The accumulators of wgmma: four lanes, a quad, share two rows 8 apart; lane % 4 tells the columns.
  MM_DEVICE uint32_t quad() const { return lane / 4U; }
  MM_DEVICE uint32_t quad_lane() const { return lane % 4U; }
};

/// By all lanes of a math group's warp. Shuffles give the compiler nothing to remember from one tile to the next.
MM_DEVICE MathThread math_thread() {
  const uint32_t warp = simt::warp_idx_uniform() - kGroupWarps;
  const uint32_t lane = simt::lane_idx();
  return {warp / kGroupWarps, warp % kGroupWarps, simt::shfl(simt::kAllLanes, lane, lane)};
}

/// A tile as the math groups know it.
struct MathTile {
  flow::Phase phase = flow::Phase::gemm1;
  uint32_t expert = 0;
  uint32_t n_block = 0;
  uint32_t block = 0;
  uint32_t num_rows = 0;
  Owner owner = Owner::both;
  uint32_t tile_idx = 0;  ///< among the tiles of this block

  /// Math warps that work on it.
  MM_DEVICE uint32_t num_warps() const { return owner == Owner::both ? kNumMathWarps : kGroupWarps; }
  /// Math warps that each of those stands for when it releases a chunk.
  MM_DEVICE uint32_t warps_per_release() const { return kNumMathWarps / num_warps(); }
  /// Where rows of the pool are M: the first row of the block that a thread of the group has, row 0 of its quad 0.
  MM_DEVICE uint32_t first_row(const MathThread& me) const {
    return (owner == Owner::both ? me.group * kGroupRows : 0U) + me.warp * 16U;
  }
};

/// Transposes four words of four neighbouring lanes: word j of lane i goes to word i of lane j.
MM_DEVICE void transpose_quad(uint32_t lane, uint32_t (&words)[4]) {
  MM_UNROLL
  for (uint32_t distance = 1; distance < 4U; distance *= 2U) {
    const bool is_upper = (lane & distance) != 0U;
    MM_UNROLL
    for (uint32_t i = 0; i < 4U; ++i) {
      if ((i & distance) != 0U) continue;
      const uint32_t sent = is_upper ? words[i] : words[i + distance];
      const uint32_t received = simt::shfl_xor(simt::kAllLanes, sent, distance);
      words[i] = is_upper ? received : words[i];
      words[i + distance] = is_upper ? words[i + distance] : received;
    }
  }
}

/// Two 16-bit values as one word.
MM_DEVICE uint32_t pair_of(uint32_t low, uint32_t high) { return low | high << 16U; }

}  // namespace megamoe::sm90
