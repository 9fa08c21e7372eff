#pragma once

// The barrier of all blocks of all ranks: exchange, before combine, after reset.
//
// A rank's last block tells every rank; every block watches its own rank's epochs, which peers write: no block waits
// for a block of its own rank to pass the news on. The epoch is the number of the rank's own round, so nothing about
// barriers has to be remembered outside the workspace. A rank uses worker_arrivals either for these barriers only or,
// like all other ranks, for grid barriers at the same places between them.

#include <cstdint>

#include "cuda/sync/grid_barrier.hpp"

namespace megamoe::sync {

/// Arrives: every block of every rank, all its threads, a whole warp at least. Waits: the same. Afterwards everything
/// that any of them wrote before is visible to all of them.
MM_DEVICE GoOn peer_barrier(const Waiter& waiter, uint32_t* verdict) {
  simt::sync_threads();
  GoOn go_on = true;
  if (simt::warp_idx() == 0) {
    GridArrival arrival;
    if (simt::lane_idx() == 0) {
      uint64_t* arrivals = waiter.own().get<flow::Field::worker_arrivals>();
      arrival = grid_arrive(arrivals, waiter.worker_idx, waiter.num_workers);
    }
    arrival.round = simt::shfl(simt::kAllLanes, arrival.round, 0);
    const bool completes = simt::any(simt::kAllLanes, arrival.completes);
    // What lane 0 acquired comes before what the other lanes release.
    simt::syncwarp();
    // Ranks side by side: each release waits for all writes to be acknowledged.
    for (uint32_t r = simt::lane_idx(); completes && r < waiter.num_ranks; r += simt::kWarpLanes) {
      uint64_t* epochs = waiter.peers.at(flow::Rank{r}).get<flow::Field::peer_epoch>();
      ptx::st_release<ptx::Scope::sys>(&epochs[num(waiter.rank)], arrival.round);  // publish(peer_epoch)
    }
    const uint64_t* epochs = waiter.own().get<flow::Field::peer_epoch>();
    for (uint32_t r = simt::lane_idx(); go_on && r < waiter.num_ranks; r += simt::kWarpLanes) {
      // consume(peer_epoch)
      go_on = wait_until<ptx::Scope::sys>(waiter, &epochs[r], {flow::Field::peer_epoch, r, arrival.round},
                                          [&](uint64_t seen) { return seen >= arrival.round; });
    }
    go_on = simt::all(simt::kAllLanes, go_on);
  }
  return share_verdict(go_on, verdict);
}

}  // namespace megamoe::sync
