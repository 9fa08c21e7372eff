#pragma once

// The communication half of the layer as two plain kernels, dispatch and combine, around whatever multiplies.
// REQUIRES of both: all blocks of all ranks are resident at once, blocks are whole warps, dispatch_shared_bytes
// (dispatch) or SharedPlan::num_bytes (the others) of dynamic shared memory. A kernel that a wait has stopped returns
// early; the fault record says why.

#include "cuda/sm90/combine.hpp"
#include "cuda/sm90/count.hpp"
#include "cuda/sm90/pull.hpp"
#include "cuda/sm90/push.hpp"
#include "cuda/sm90/stage_in.hpp"
#include "cuda/sm90/timing.hpp"
#include "cuda/sync/peer_barrier.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::sm90 {

MM_DEVICE Worker make_worker(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  return {arguments, SharedPlan::carve(simt::dynamic_shared(), arguments.dims), worker_idx, num_workers};
}

/// Whose block this is in a grid that holds the blocks of several ranks, rank by rank.
struct VirtualRank {
  uint32_t idx = 0;  ///< among the grid's ranks
  uint32_t worker_idx = 0;
};
MM_DEVICE VirtualRank virtual_rank(uint32_t blocks_per_rank) {
  return {simt::block_idx() / blocks_per_rank, simt::block_idx() % blocks_per_rank};
}

/// The barrier of all ranks, for the fault record a part of `stage`.
MM_DEVICE sync::GoOn meet_ranks(const Worker& worker, Stage stage) {
  return sync::peer_barrier(worker.waiter(static_cast<uint32_t>(stage)), worker.shared.verdict);
}

/// stage_in, count, prefix, scatter: what a rank does for the owners of experts.
MM_DEVICE void send(const Worker& worker) {
  timed(worker, Part::stage_in, [&] { stage_in(worker); });
  timed(worker, Part::count, [&] { count(worker); });
  timed(worker, Part::prefix, [&] { prefix(worker); });
  timed(worker, Part::scatter, [&] { scatter(worker); });
}

/// send, exchange, pull.
MM_DEVICE sync::GoOn dispatch(const Worker& worker) {
  send(worker);
  sync::GoOn go_on = true;
  timed(worker, Part::exchange, [&] { go_on = meet_ranks(worker, Stage::exchange); });
  if (go_on) timed(worker, Part::pull, [&] { pull(worker); });
  return go_on;
}

/// combine and reset between the barriers before and after them.
MM_DEVICE void bring_together(const Worker& worker) {
  sync::GoOn go_on = true;
  timed(worker, Part::arrive_home, [&] { go_on = meet_ranks(worker, Stage::combine); });
  if (!go_on) return;
  timed(worker, Part::combine, [&] { combine(worker); });
  timed(worker, Part::reset, [&] { reset(worker); });
  // Its failure stands in the fault record, like that of every wait.
  timed(worker, Part::leave, [&] { (void)meet_ranks(worker, Stage::reset); });
}

/// Block `worker_idx` of the rank's `num_workers`.
MM_DEVICE void dispatch_kernel(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  (void)dispatch(make_worker(arguments, worker_idx, num_workers));
}

/// The barrier of all ranks alone.
MM_DEVICE void meet_kernel(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  (void)meet_ranks(make_worker(arguments, worker_idx, num_workers), Stage::exchange);
}

/// push, where results wait for it, then the way to the output. `num_workers` need not be dispatch's.
MM_DEVICE void combine_kernel(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  const Worker worker = make_worker(arguments, worker_idx, num_workers);
  if (arguments.results != nullptr) timed(worker, Part::push, [&] { push(worker); });
  bring_together(worker);
}

}  // namespace megamoe::sm90
