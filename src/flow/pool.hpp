#pragma once

// The pool: all rows a rank received, expert by expert, each expert's run padded to whole blocks. All addressing of the
// pool goes through PoolMap, so that the pool can become a ring without its users noticing.

#include "flow/dims.hpp"

namespace megamoe::flow {

/// Where a pool row came from, remembered for the way home.
struct RowSource {
  uint32_t token = 0;
  uint16_t rank = 0;
  uint16_t choice = 0;
};

/// One pool block: which expert's, and which of its rows.
struct BlockInfo {
  LocalExpert expert{};
  uint32_t m_block = 0;   ///< among the expert's blocks
  uint32_t num_rows = 0;  ///< valid ones, 1..block_m
};

/// The pool's layout in one call, a function of the rows per local expert alone.
/// `first_block` [num_local + 1] is the caller's memory: block at which each expert begins, then the end.
struct PoolMap {
  const uint32_t* rows = nullptr;   // [num_local], rows per local expert
  uint32_t* first_block = nullptr;  // [num_local + 1]
  uint32_t num_local = 0;
  uint32_t block_m = 1;

  /// ENSURES first_block is the exclusive prefix sum of blocks per expert.
  MM_HOST_DEVICE void build() const {
    uint32_t block = 0;
    for (uint32_t e = 0; e < num_local; ++e) {
      first_block[e] = block;
      block += ceil_div(rows[e], block_m);
    }
    first_block[num_local] = block;
  }

  MM_HOST_DEVICE uint32_t num_blocks() const { return first_block[num_local]; }
  MM_HOST_DEVICE uint32_t num_m_blocks(LocalExpert expert) const {
    return first_block[num(expert) + 1U] - first_block[num(expert)];
  }
  MM_HOST_DEVICE PoolBlock block(LocalExpert expert, uint32_t m_block) const {
    return PoolBlock{first_block[num(expert)] + m_block};
  }
  MM_HOST_DEVICE PoolRow first_row(PoolBlock block) const { return PoolRow{num(block) * block_m}; }
  MM_HOST_DEVICE uint32_t valid_rows(LocalExpert expert, uint32_t m_block) const {
    return min_of(block_m, rows[num(expert)] - m_block * block_m);
  }

  /// REQUIRES num(block) < num_blocks(). Binary search over the experts.
  MM_HOST_DEVICE BlockInfo info(PoolBlock block) const {
    uint32_t low = 0;
    uint32_t high = num_local;
    while (high - low > 1U) {
      const uint32_t middle = (low + high) / 2U;
      if (first_block[middle] <= num(block)) {
        low = middle;
      } else {
        high = middle;
      }
    }
    // Experts without rows share their successor's first block; the search ends on the last of them, which owns it.
    const uint32_t m_block = num(block) - first_block[low];
    return {LocalExpert{low}, m_block, valid_rows(LocalExpert{low}, m_block)};
  }
};

/// Bits of a pool block's mask that gemm1 sets when all its n blocks are done.
MM_HOST_DEVICE constexpr uint64_t full_mask(uint32_t num_n_blocks) {
  return num_n_blocks >= 64U ? ~uint64_t{0} : (uint64_t{1} << num_n_blocks) - 1U;
}

}  // namespace megamoe::flow
