#pragma once

// The barrier of all blocks of one rank. REQUIRES all of them are resident at once (cooperative launch).
//
// One word that resets itself: every complete round adds exactly 2^kArrivalBits to it, whatever the number of blocks.
// So the low bits count the arrivals of the running round and are zero between rounds, the high bits count complete
// rounds, and launches of different size may use one word in turn. The first block's share makes up the rest of the
// round: the high bits cannot change before the last block has arrived.

#include <cstdint>

#include "cuda/simt/block.hpp"
#include "cuda/simt/warp.hpp"
#include "cuda/sync/wait.hpp"

namespace megamoe::sync {

/// Fewer blocks than 2^16, and rounds for longer than any process lives.
inline constexpr uint32_t kArrivalBits = 16;

MM_DEVICE constexpr uint64_t num_complete_rounds(uint64_t arrivals) { return arrivals >> kArrivalBits; }

/// What one arrival began or ended.
struct GridArrival {
  uint64_t round = 0;  ///< from 1; complete once num_complete_rounds(word) has reached it
  bool completes = false;
};

/// One thread arrives for its block. Acquires what the blocks before it released, releases what is before it.
MM_DEVICE GridArrival grid_arrive(uint64_t* arrivals, uint32_t worker_idx, uint32_t num_workers) {
  const uint64_t share = worker_idx == 0U ? (uint64_t{1} << kArrivalBits) - (num_workers - 1U) : 1U;
  // publish(worker_arrivals)
  const uint64_t before = ptx::atom_add<ptx::Order::acq_rel, ptx::Scope::gpu>(arrivals, share);
  const uint64_t round = num_complete_rounds(before) + 1U;
  return {round, num_complete_rounds(before + share) == round};
}

/// Tells all threads of the block what lane 0 of warp 0 found out. `verdict`: a word of shared memory that serves only
/// this; every use stands behind a sync_threads.
MM_DEVICE GoOn share_verdict(GoOn go_on, uint32_t* verdict) {
  if (simt::thread_idx() == 0) simt::store(verdict, go_on ? 1U : 0U);
  simt::sync_threads();
  return simt::load(verdict) != 0U;
}

/// Arrives: every block of this rank, all its threads. Waits: the same. Afterwards everything that any of them wrote
/// before is visible to all of them.
MM_DEVICE GoOn grid_barrier(const Waiter& waiter, uint32_t* verdict) {
  simt::sync_threads();
  GoOn go_on = true;
  if (simt::thread_idx() == 0) {
    uint64_t* arrivals = waiter.own().get<flow::Field::worker_arrivals>();
    const uint64_t round = grid_arrive(arrivals, waiter.worker_idx, waiter.num_workers).round;
    const Watched watched{flow::Field::worker_arrivals, 0, round << kArrivalBits};
    // consume(worker_arrivals)
    go_on = wait_until<ptx::Scope::gpu>(waiter, arrivals, watched,
                                        [&](uint64_t seen) { return num_complete_rounds(seen) >= round; });
  }
  return share_verdict(go_on, verdict);
}

}  // namespace megamoe::sync
