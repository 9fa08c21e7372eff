#pragma once

// The rows of the pool, dealt to the warps of a rank.

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

/// Calls visit(place), all lanes together, for every row that is this warp's; neighbouring rows go to different blocks.
/// REQUIRES the exchange barrier is behind: recv_total is final.
template <class Visit>
MM_DEVICE void for_each_pool_row(const Worker& worker, Visit&& visit) {
  const Arguments& arguments = worker.arguments;
  const uint32_t num_local = arguments.placement().num_local(arguments.rank);
  const uint32_t num_warps = worker.num_rank_warps();
  const uint64_t* totals = arguments.own().get<flow::Field::recv_total>();
  uint32_t place = worker.rank_warp_idx();  // of this warp's next row in the run of the expert at hand, and beyond
  uint32_t first_block = 0;
  for (uint32_t e = 0; e < num_local; ++e) {
    // The pool's map through a window of one expert: all of it would have to stand in memory.
    const uint64_t total = ptx::ld_acquire<ptx::Scope::sys>(totals + e);  // consume(recv_total)
    const uint32_t num_rows = flow::CountWord{total}.num_rows();
    uint32_t blocks[2] = {first_block, first_block + flow::ceil_div(num_rows, arguments.dims.block_m)};
    const flow::PoolMap pool{&num_rows, blocks, 1, arguments.dims.block_m};
    for (; place < num_rows; place += num_warps) {
      const flow::PoolBlock block = pool.block(flow::LocalExpert{0}, place / pool.block_m);
      const flow::PoolRow row{num(pool.first_row(block)) + place % pool.block_m};
      visit(PoolPlace{flow::LocalExpert{e}, place, block, row});
    }
    place -= num_rows;
    first_block = blocks[1];
  }
}

}  // namespace megamoe::sm90
