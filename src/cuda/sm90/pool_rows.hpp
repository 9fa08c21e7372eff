#pragma once

// The rows of the pool, dealt to the warps of a rank. Every block keeps the pool's map in shared memory.

#include "cuda/sm90/worker.hpp"
#include "flow/count.hpp"

namespace megamoe::sm90 {

/// One row that a warp takes.
struct PoolPlace {
  flow::LocalExpert expert{};
  uint32_t place = 0;  ///< in the expert's run
  flow::PoolBlock block{};
  flow::PoolRow row{};
};

/// Sum of the lanes up to and with this one. All lanes.
MM_DEVICE uint32_t inclusive_sum(uint32_t value) {
  MM_UNROLL
  for (uint32_t delta = 1; delta < simt::kWarpLanes; delta *= 2U) {
    const uint32_t below = simt::shfl_up(simt::kAllLanes, value, delta);
    if (simt::lane_idx() >= delta) value += below;
  }
  return value;
}

/// ENSURES the block's shared memory holds, per local expert and behind the last, the rows and pool blocks before it.
/// REQUIRES the exchange barrier is behind: recv_total is final. All threads.
MM_DEVICE void load_pool_map(const Worker& worker) {
  const Arguments& arguments = worker.arguments;
  const uint32_t num_local = arguments.placement().num_local(arguments.rank);
  const uint64_t* totals = arguments.own().get<flow::Field::recv_total>();
  if (simt::warp_idx() == 0) {
    uint32_t num_rows = 0;
    uint32_t num_blocks = 0;
    for (uint32_t begin = 0; begin < num_local; begin += simt::kWarpLanes) {
      const uint32_t e = begin + simt::lane_idx();
      const uint32_t rows = e < num_local ? flow::CountWord{simt::load(totals + e)}.num_rows() : 0U;
      const uint32_t rows_to_here = num_rows + inclusive_sum(rows);
      const uint32_t blocks = flow::ceil_div(rows, arguments.dims.block_m);
      const uint32_t blocks_to_here = num_blocks + inclusive_sum(blocks);
      if (e < num_local) {
        simt::store(worker.shared.rows_before + e, rows_to_here - rows);
        simt::store(worker.shared.blocks_before + e, blocks_to_here - blocks);
      }
      num_rows = simt::shfl(simt::kAllLanes, rows_to_here, simt::kWarpLanes - 1U);
      num_blocks = simt::shfl(simt::kAllLanes, blocks_to_here, simt::kWarpLanes - 1U);
    }
    if (simt::lane_idx() == 0) {
      simt::store(worker.shared.rows_before + num_local, num_rows);
      simt::store(worker.shared.blocks_before + num_local, num_blocks);
    }
  }
  simt::sync_threads();
}

/// Rows that this rank received, by load_pool_map.
MM_DEVICE uint32_t num_pool_rows(const Worker& worker) {
  const uint32_t num_local = worker.arguments.placement().num_local(worker.arguments.rank);
  return simt::load(worker.shared.rows_before + num_local);
}

/// The `row_idx`-th received row. REQUIRES load_pool_map, row_idx < num_pool_rows.
MM_DEVICE PoolPlace find_pool_row(const Worker& worker, uint32_t row_idx) {
  const uint32_t* rows_before = worker.shared.rows_before;
  uint32_t low = 0;
  uint32_t high = worker.arguments.placement().num_local(worker.arguments.rank);
  // Experts without rows share their successor's beginning; the search ends on the last of them, which has the row.
  while (high - low > 1U) {
    const uint32_t middle = (low + high) / 2U;
    if (simt::load(rows_before + middle) <= row_idx) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const uint32_t place = row_idx - simt::load(rows_before + low);
  const uint32_t block_m = worker.arguments.dims.block_m;
  const uint32_t block = simt::load(worker.shared.blocks_before + low) + place / block_m;
  return {flow::LocalExpert{low}, place, flow::PoolBlock{block}, flow::PoolRow{block * block_m + place % block_m}};
}

}  // namespace megamoe::sm90
