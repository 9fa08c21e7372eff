#pragma once

// Bounded waits. A wait ends when its condition holds, when any rank has given up, or when time is up: then it records
// what it waited for and tells every rank to stop.

#include <cstdint>

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/memory.hpp"
#include "flow/workspace.hpp"

namespace megamoe::sync {

/// True: go on. False: a wait timed out or another rank gave up; the caller must return at once.
using GoOn = bool;

/// Who waits, where, and how long at most. A worker is a block of its rank.
struct Waiter {
  flow::Peers peers;
  flow::Rank rank{};
  uint32_t num_ranks = 1;
  uint32_t worker_idx = 0;
  uint32_t num_workers = 1;  ///< of this rank
  uint32_t stage = 0;        ///< megamoe::Stage, for the fault record
  uint64_t timeout_ns = 0;   ///< of each wait

  MM_DEVICE flow::Workspace own() const { return peers.at(rank); }
};

/// What a wait watches, for the fault record.
struct Watched {
  flow::Field field{};
  uint32_t index = 0;
  uint64_t wanted = 0;
};

/// FaultRecord::is_set while one thread writes the record, and when it may be read.
inline constexpr uint32_t kFaultIsBeingWritten = 1;
inline constexpr uint32_t kFaultIsSet = 2;

/// Writes this rank's fault record, unless another thread already has, and raises every rank's abort flag.
MM_DEVICE void record_fault(const Waiter& waiter, const Watched& watched, uint64_t seen) {
  flow::FaultRecord* fault = waiter.own().get<flow::Field::fault>();
  // sys: the host reads the record, perhaps while the kernel still runs.
  if (ptx::atom_cas<ptx::Order::relaxed, ptx::Scope::sys>(&fault->is_set, 0U, kFaultIsBeingWritten) == 0U) {
    simt::store(&fault->rank, num(waiter.rank));
    simt::store(&fault->worker, waiter.worker_idx);
    simt::store(&fault->stage, waiter.stage);
    simt::store(&fault->field, static_cast<uint32_t>(watched.field));
    simt::store(&fault->index, watched.index);
    simt::store(&fault->seen, seen);
    simt::store(&fault->wanted, watched.wanted);
    ptx::st_release<ptx::Scope::sys>(&fault->is_set, kFaultIsSet);
  }
  for (uint32_t r = 0; r < waiter.num_ranks; ++r) {
    uint32_t* abort_flag = waiter.peers.at(flow::Rank{r}).get<flow::Field::abort_flag>();
    ptx::st_release<ptx::Scope::sys>(abort_flag, 1U);  // publish(abort_flag)
  }
}

/// One thread waits until `*flag`, read with acquire, satisfies `is_reached(value)`. `Flag`: uint32_t or uint64_t.
template <ptx::Scope kScope, class Flag, class Reached>
MM_DEVICE GoOn wait_until(const Waiter& waiter, const Flag* flag, const Watched& watched, Reached&& is_reached) {
  Flag seen = ptx::ld_acquire<kScope>(flag);
  if (is_reached(seen)) return true;
  const uint32_t* abort_flag = waiter.own().get<flow::Field::abort_flag>();
  const uint64_t begin_ns = simt::global_timer_ns();
  do {
    if (ptx::ld_acquire<ptx::Scope::sys>(abort_flag) != 0U) return false;  // consume(abort_flag)
    if (simt::global_timer_ns() - begin_ns > waiter.timeout_ns) {
      record_fault(waiter, watched, seen);
      return false;
    }
    seen = ptx::ld_acquire<kScope>(flag);
  } while (!is_reached(seen));
  return true;
}

}  // namespace megamoe::sync
