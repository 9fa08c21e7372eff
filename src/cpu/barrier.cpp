// The barrier of all workers of all ranks: the exchange barrier, the one before combine and the one after reset.
//
// Arrives: every worker of every rank, once per barrier. Waits: the same. A rank's last worker tells every rank.

#include "cpu/wait.hpp"

namespace megamoe::cpu {

using flow::Field;
using flow::Rank;

GoOn barrier(Worker& worker) {
  const uint64_t barrier_idx = ++worker.barrier_idx;
  const uint64_t all_arrived = barrier_idx * worker.rules.num_workers;
  auto* arrivals = worker.local.own.get<Field::worker_arrivals>();
  if (fetch_add(arrivals, uint64_t{1}) + 1U == all_arrived) {
    for (uint32_t r = 0; r < worker.rules.dims.num_ranks; ++r) {
      auto* epochs = worker.local.peers.at(Rank{r}).get<Field::peer_epoch>();
      store_release(&epochs[num(worker.local.rank)], barrier_idx);  // publish(peer_epoch)
    }
  }

  // Ranks may start their first call minutes apart; after that, the call's own limit holds.
  const bool is_start = worker.call.is_first && barrier_idx == worker.call.barriers_before + 1U;
  const auto limit = is_start ? std::max(worker.rules.timeout, worker.rules.start_timeout) : worker.rules.timeout;
  const auto* epochs = worker.local.own.get<Field::peer_epoch>();
  for (uint32_t r = 0; r < worker.rules.dims.num_ranks; ++r) {
    // consume(peer_epoch)
    if (!wait_for(worker, &epochs[r], {Field::peer_epoch, r, barrier_idx}, limit,
                  [&](uint64_t seen) { return seen >= barrier_idx; })) {
      return false;
    }
  }
  return true;
}

}  // namespace megamoe::cpu
