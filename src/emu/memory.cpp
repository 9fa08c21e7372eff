#include "emu/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "emu/places.hpp"
#include "emu/polls.hpp"

namespace megamoe::emu {

namespace {

/// First byte whose state has `bit` set or clear, or num_bytes.
uint32_t find_state(const uint8_t* states, uint32_t num_bytes, uint8_t bit, bool is_set) {
  uint32_t i = 0;
  while (i < num_bytes && ((states[i] & bit) != 0) != is_set) ++i;
  return i;
}

/// Shared memory of another block: only of the same cluster.
void check_owner(const void* address, const Where& where) {
  const Block* owner = world().owner_of(address);
  if (owner == nullptr || owner->cluster == self().block->cluster) return;
  world().fail(FindingKind::out_of_bounds, where,
               fmt::format("{} belongs to a block outside this cluster", place_of(address)));
}

void mark_written(void* address, uint32_t num_bytes) {
  World& machine = world();
  uint8_t* states = machine.arena->states(address);
  ++machine.version;
  if ((states[0] & kShared) != 0) machine.arena->stamp(address) = machine.owner_of(address)->num_proxy_fences;
  for (uint32_t i = 0; i < num_bytes; ++i) states[i] |= kWritten;
}

/// A strong load that saw nothing new: lets others run, and in the end puts the lane aside.
void poll(const void* address, uint32_t num_bytes, const Where& where) {
  Lane& lane = self();
  note_poll(lane.polls, address, num_bytes, peek(address, num_bytes));
  if (is_spinning(lane.polls)) {
    world().scheduler.park({WaitKind::memory, where, address, num_bytes});
  } else if (lane.polls.num_repeats > 0) {
    world().scheduler.yield();
  }
}

void check_strong(const void* address, uint32_t num_bytes, bool reads, bool writes, StateSpace space,
                  const Where& where) {
  step();
  check_access(address, num_bytes, reads, writes, where);
  const bool is_right =
      space == StateSpace::global ? !world().arena->is_slot(address) : world().owner_of(address) == self().block;
  if (!is_right) {
    world().fail(FindingKind::out_of_bounds, where,
                 fmt::format("this instruction takes {} memory (got {})",
                             space == StateSpace::global ? "global" : "the block's own shared", place_of(address)));
  }
}

}  // namespace

void check_access(const void* address, uint32_t num_bytes, bool reads, bool writes, const Where& where) {
  World& machine = world();
  const char* what = reads ? (writes ? "atomic" : "load") : "store";
  if (reinterpret_cast<uintptr_t>(address) % num_bytes != 0) {
    machine.fail(FindingKind::misaligned, where,
                 fmt::format("{} of {} bytes at {} must be aligned to its size", what, num_bytes, place_of(address)));
  }
  const uint8_t* states = machine.arena->states(address);
  if (!machine.arena->contains(address) || find_state(states, num_bytes, kAllocated, false) < num_bytes) {
    machine.fail(FindingKind::out_of_bounds, where,
                 fmt::format("{} of {} bytes at {}", what, num_bytes, place_of(address)));
  }
  check_owner(address, where);
  if (find_state(states, num_bytes, kMBarrier, true) < num_bytes) {
    machine.fail(FindingKind::barrier_misuse, where,
                 fmt::format("{} of {} touches an mbarrier; only mbarrier operations may, until mbarrier.inval", what,
                             place_of(address)));
  }
  const uint8_t busy = writes ? kCopyWrites | kCopyReads : kCopyWrites;
  if (find_state(states, num_bytes, busy, true) < num_bytes) {
    machine.note(
        FindingKind::copy_in_flight, &self(), where,
        fmt::format("{} of {} bytes at {} while an asynchronous copy {} them{}", what, num_bytes, place_of(address),
                    (states[0] & kCopyWrites) != 0 ? "writes" : "reads", machine.copies.describe_copy_at(address)));
  } else if (reads && find_state(states, num_bytes, kWritten, false) < num_bytes) {
    machine.note(FindingKind::unwritten_read, &self(), where,
                 fmt::format("{} of {} bytes at {}, which nobody has written", what, num_bytes, place_of(address)));
  }
}

void check_finished(const void* words, uint32_t num_words, const Where& where) {
  for (uint32_t i = 0; i < num_words; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(words) + i * sizeof word, sizeof word);
    if ((word | 0x80000000U) != (kUnfinishedD | 0x80000000U)) continue;
    world().note(FindingKind::mma_order, &self(), where,
                 "the value comes from an accumulator register that was read before wgmma_wait_group handed it back");
    return;
  }
}

void watched_load(void* destination, const void* source, uint32_t num_bytes, AccessKind kind, const Where& where) {
  World& machine = world();
  machine.races.on_read(self(), source, num_bytes, kind, where);
  std::memcpy(destination, source, num_bytes);
  machine.stores.forward(self(), destination, source, num_bytes);
}

void watched_store(void* destination, const void* source, uint32_t num_bytes, AccessKind kind, const Where& where) {
  World& machine = world();
  machine.races.on_write(self(), destination, num_bytes, kind, where);
  if (machine.stores.take(self(), destination, source, num_bytes)) return;
  std::memcpy(destination, source, num_bytes);
}

void strong_load(void* destination, const void* source, uint32_t num_bytes, ptx::Order order, ptx::Scope scope,
                 const Where& where) {
  check_strong(source, num_bytes, true, false, StateSpace::global, where);
  poll(source, num_bytes, where);
  World& machine = world();
  if (!machine.watches_accesses) {
    std::memcpy(destination, source, num_bytes);
    return;
  }
  const AccessKind kind{AccessKind::Strength::strong, order, scope};
  watched_load(destination, source, num_bytes, kind, where);
  machine.races.acquire(self(), source, order, scope);
}

void strong_store(void* destination, const void* source, uint32_t num_bytes, ptx::Order order, ptx::Scope scope,
                  const Where& where) {
  check_strong(destination, num_bytes, false, true, StateSpace::global, where);
  World& machine = world();
  forget_polls(self().polls);
  mark_written(destination, num_bytes);
  if (!machine.watches_accesses) {
    std::memcpy(destination, source, num_bytes);
    return;
  }
  const bool releases = order == ptx::Order::release || order == ptx::Order::acq_rel;
  if (releases) machine.stores.order(self(), scope);
  const AccessKind kind{AccessKind::Strength::strong, order, scope};
  watched_store(destination, source, num_bytes, kind, where);
  // A release store orders what came before it; it may itself arrive late.
  machine.races.release_store(self(), destination, order, scope);
}

void begin_atomic(const void* address, uint32_t num_bytes, StateSpace space, ptx::Order order, ptx::Scope scope,
                  const Where& where) {
  check_strong(address, num_bytes, true, true, space, where);
  World& machine = world();
  if (!machine.watches_accesses) return;
  const bool releases = order == ptx::Order::release || order == ptx::Order::acq_rel;
  if (releases) machine.stores.order(self(), scope);
  machine.stores.flush_for(self(), address, num_bytes);
  const AccessKind kind{AccessKind::Strength::strong, order, scope};
  machine.races.on_read(self(), address, num_bytes, kind, where);
  machine.races.on_write(self(), address, num_bytes, kind, where);
  machine.races.read_modify_write(self(), address, order, scope);
}

void end_atomic(const void* address, uint32_t num_bytes, uint64_t before, uint64_t after, const Where& where) {
  Lane& lane = self();
  // An atomic that changes nothing is a way to look.
  if (before != after) {
    forget_polls(lane.polls);
    mark_written(const_cast<void*>(address), num_bytes);
    return;
  }
  poll(address, num_bytes, where);
}

float add_in_memory(float a, float b) {
  const auto flushed = [](float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
  };
  return flushed(flushed(a) + flushed(b));
}

void fence(ptx::Scope scope, const Where& where) {
  (void)where;
  step();
  World& machine = world();
  if (!machine.watches_accesses) return;
  machine.stores.order(self(), scope);
  machine.races.fence(self(), scope);
}

void prefetch(const void* address, uint32_t num_bytes, const Where& where) {
  step();
  World& machine = world();
  const uint8_t* states = machine.arena->states(address);
  if (!machine.arena->contains(address) || find_state(states, num_bytes, kAllocated, false) < num_bytes) {
    machine.fail(FindingKind::out_of_bounds, where,
                 fmt::format("prefetch of {} bytes at {}", num_bytes, place_of(address)));
  }
}

}  // namespace megamoe::emu
