#include "emu/mbarrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "emu/memory.hpp"
#include "emu/places.hpp"
#include "emu/polls.hpp"
#include "emu/step.hpp"

namespace megamoe::emu {

namespace {

constexpr uint32_t kMaxArrivals = (1U << 20U) - 1;
constexpr int64_t kMaxPendingBytes = (1 << 20) - 1;
constexpr uint32_t kMBarrierBytes = 8;

/// The shared-memory block of an mbarrier address; fails on anything that cannot be one.
Block& check_place(const void* address, MBarrierSpace space, const Where& where) {
  World& machine = world();
  Block* block = machine.arena->contains(address) ? machine.owner_of(address) : nullptr;
  if (block == nullptr || (machine.arena->states(address)[0] & kAllocated) == 0) {
    machine.fail(FindingKind::out_of_bounds, where,
                 fmt::format("an mbarrier must stand in shared memory (got {})", place_of(address)));
  }
  if (reinterpret_cast<uintptr_t>(address) % kMBarrierBytes != 0) {
    machine.fail(FindingKind::misaligned, where,
                 fmt::format("an mbarrier must be aligned to 8 bytes (got {})", place_of(address)));
  }
  const bool is_own = block == self().block;
  if (!is_own && (space == MBarrierSpace::own_block || block->cluster != self().block->cluster)) {
    machine.fail(FindingKind::out_of_bounds, where,
                 fmt::format("this operation must name an mbarrier of {} (got {})",
                             space == MBarrierSpace::own_block ? "its own block" : "its cluster", place_of(address)));
  }
  return *block;
}

/// A phase is over when nobody and nothing is missing.
void finish_phase(MBarrier& barrier, const void* address, const Lane& by, const Where& where) {
  if (barrier.num_pending > 0 || barrier.pending_bytes != 0) return;
  World& machine = world();
  if (barrier.num_returning > 0) {
    machine.note(FindingKind::missed_phase, &by, where,
                 fmt::format("mbarrier {} completes phase {} while {} lanes have not yet seen that phase {} is over: "
                             "they would wait for the wrong one",
                             place_of(address), barrier.phase, barrier.num_returning, barrier.phase - 1));
    barrier.num_returning = 0;
  }
  ++barrier.phase;
  ++machine.version;
  barrier.num_pending = barrier.num_expected;
  if (machine.races.enabled()) {
    barrier.passed.join(barrier.gathering.sum());
    barrier.gathering.clear();
  }
  for (Lane* lane : barrier.waiting) {
    lane->result = 1;
    ++barrier.num_returning;
    machine.scheduler.make_ready(*lane);
  }
  barrier.waiting.clear();
}

void add_expected(MBarrier& barrier, const void* address, int64_t num_bytes, const Where& where) {
  barrier.pending_bytes += num_bytes;
  if (std::abs(barrier.pending_bytes) > kMaxPendingBytes) {
    world().fail(FindingKind::arrival_count, where,
                 fmt::format("the transaction count of mbarrier {} must stay within +-{} (got {})", place_of(address),
                             kMaxPendingBytes, barrier.pending_bytes));
  }
}

bool is_complete(const MBarrier& barrier, uint32_t parity) { return (barrier.phase & 1U) != (parity & 1U); }

/// Only lanes that are ordered after mbarrier.init may use the object.
void check_made(const void* address, const Where& where) {
  if (world().races.enabled()) world().races.on_read(self(), address, kCellBytes, {}, where);
}

bool passed(MBarrier& barrier) {
  Lane& lane = self();
  forget_polls(lane.polls);
  if (world().races.enabled()) world().races.learn(lane, barrier.passed);
  return true;
}

/// Sleeps until the phase that is under way is complete, or until the scheduler lets every poll look again.
bool wait_for_phase(MBarrier& barrier, const void* address, uint32_t parity, const Where& where) {
  Lane& lane = self();
  barrier.waiting.push_back(&lane);
  lane.result = 0;
  world().scheduler.park({WaitKind::mbarrier, where, address, parity});
  if (lane.result == 0) {
    barrier.waiting.erase(std::find(barrier.waiting.begin(), barrier.waiting.end(), &lane));
    lane.polls.num_repeats = std::max(lane.polls.num_repeats, kNumRepeatsOfPoll);
    return false;
  }
  if (barrier.num_returning > 0) --barrier.num_returning;
  return passed(barrier);
}

}  // namespace

MBarrier& mbarrier_at(const void* address, const Where& where) {
  Block* block = world().owner_of(address);
  const auto found = block->mbarriers.find(address);
  if (found == block->mbarriers.end()) {
    world().fail(FindingKind::barrier_misuse, where,
                 fmt::format("no mbarrier stands at {}; mbarrier.init must come before", place_of(address)));
  }
  return *found->second;
}

void mbarrier_init(void* address, uint32_t num_arrivals, const Where& where) {
  step();
  Block& block = check_place(address, MBarrierSpace::own_block, where);
  if (num_arrivals == 0 || num_arrivals > kMaxArrivals) {
    world().fail(FindingKind::arrival_count, where,
                 fmt::format("an mbarrier must expect 1..{} arrivals (got {})", kMaxArrivals, num_arrivals));
  }
  std::unique_ptr<MBarrier>& slot = block.mbarriers[address];
  if (slot != nullptr) {
    world().fail(FindingKind::barrier_misuse, where,
                 fmt::format("{} holds an mbarrier since {}; mbarrier.inval must come before", place_of(address),
                             short_location(slot->made_at)));
  }
  slot = std::make_unique<MBarrier>();
  slot->num_expected = num_arrivals;
  slot->num_pending = num_arrivals;
  slot->block = &block;
  slot->made_at = where;
  uint8_t* states = world().arena->states(address);
  for (uint32_t i = 0; i < kMBarrierBytes; ++i) states[i] |= kMBarrier | kWritten;
  if (world().races.enabled()) {
    slot->agent = world().races.add_agent(nullptr, block);
    // The object exists for those who are ordered after its making.
    world().races.on_write(self(), address, kMBarrierBytes, {}, where);
  }
}

void mbarrier_inval(void* address, const Where& where) {
  step();
  Block& block = check_place(address, MBarrierSpace::own_block, where);
  const MBarrier& barrier = mbarrier_at(address, where);
  if (!barrier.waiting.empty()) {
    world().fail(FindingKind::barrier_misuse, where,
                 fmt::format("{} lanes still wait for mbarrier {}", barrier.waiting.size(), place_of(address)));
  }
  block.mbarriers.erase(address);
  uint8_t* states = world().arena->states(address);
  for (uint32_t i = 0; i < kMBarrierBytes; ++i) states[i] &= static_cast<uint8_t>(~(kMBarrier | kWritten));
}

void mbarrier_arrive(void* address, uint32_t count, uint32_t expected_bytes, ptx::Order order, MBarrierSpace space,
                     const Where& where) {
  step();
  check_place(address, space, where);
  MBarrier& barrier = mbarrier_at(address, where);
  check_made(address, where);
  Lane& lane = self();
  if (order != ptx::Order::relaxed) {
    world().stores.order(lane, ptx::Scope::cluster);
    if (world().races.enabled()) world().races.publish(lane, barrier.gathering);
  }
  add_expected(barrier, address, expected_bytes, where);
  if (count == 0 || count > barrier.num_pending) {
    world().fail(
        FindingKind::arrival_count, where,
        fmt::format("{} arrivals at mbarrier {}, whose phase {} expects {} and still waits for {} and {} bytes", count,
                    place_of(address), barrier.phase, barrier.num_expected, barrier.num_pending,
                    barrier.pending_bytes));
  }
  forget_polls(lane.polls);
  barrier.num_pending -= count;
  ++world().version;
  finish_phase(barrier, address, lane, where);
}

void mbarrier_expect_tx(void* address, uint32_t expected_bytes, MBarrierSpace space, const Where& where) {
  step();
  check_place(address, space, where);
  MBarrier& barrier = mbarrier_at(address, where);
  ++world().version;
  add_expected(barrier, address, expected_bytes, where);
}

bool mbarrier_try_wait(void* address, uint32_t parity, const Where& where) {
  step();
  check_place(address, MBarrierSpace::own_block, where);
  MBarrier& barrier = mbarrier_at(address, where);
  check_made(address, where);
  if (is_complete(barrier, parity)) return passed(barrier);
  // The hardware may give up early at any time: code that does not look again must not pass the tests.
  if (world().random.one_in(16)) {
    world().scheduler.yield();
    return false;
  }
  return wait_for_phase(barrier, address, parity, where);
}

bool mbarrier_test_wait(void* address, uint32_t parity, const Where& where) {
  step();
  check_place(address, MBarrierSpace::own_block, where);
  MBarrier& barrier = mbarrier_at(address, where);
  check_made(address, where);
  if (is_complete(barrier, parity)) return passed(barrier);
  Lane& lane = self();
  if (is_spinning(lane.polls)) return wait_for_phase(barrier, address, parity, where);
  ++lane.polls.num_repeats;
  world().scheduler.yield();
  return false;
}

void mbarrier_complete(void* address, uint32_t num_bytes, const Lane& issuer, const Where& where) {
  Block* block = world().owner_of(address);
  const auto found = block->mbarriers.find(address);
  if (found == block->mbarriers.end()) {
    world().note(FindingKind::barrier_misuse, &issuer, where,
                 fmt::format("a copy completes on {}, where no mbarrier stands any more", place_of(address)));
    return world().scheduler.request_stop();
  }
  MBarrier& barrier = *found->second;
  if (world().races.enabled()) {
    barrier.gathering.add(Epoch{barrier.agent, static_cast<uint32_t>(barrier.phase) + 1});
  }
  barrier.pending_bytes -= num_bytes;
  ++world().version;
  if (barrier.pending_bytes < -kMaxPendingBytes) {
    world().note(FindingKind::arrival_count, &issuer, where,
                 fmt::format("copies complete {} bytes more on mbarrier {} than it expects", -barrier.pending_bytes,
                             place_of(address)));
    return world().scheduler.request_stop();
  }
  finish_phase(barrier, address, issuer, where);
}

}  // namespace megamoe::emu
