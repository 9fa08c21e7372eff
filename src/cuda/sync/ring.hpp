#pragma once

// A ring of slots in shared memory: one producer thread fills them with asynchronous copies, warps of the same block
// consume them in the same order. Each item carries a word, its tag: the number of a tile, for example.
//
//   thread 0: ring.init(num_consumer_warps); all: sync_threads();
//
//   producer, one thread                             consumer warps, all lanes
//   if (!ring.wait_released(waiter, at))             tag = ring.wait_filled(waiter, at);
//     return ring.stop(waiter, at, at);              if (tag == kRingStop) return;
//   ring.expect(at, num_bytes_of_early_copies);      ... use slot at.slot ...
//   ... copies that complete on ring.filled(at) ...  ring.release(at);
//   ring.publish(at, num_bytes_of_the_rest, tag);    at.advance();
//   ... the rest of the copies ...
//   at.advance();
//
// How it ends before its time. Consumers never leave on their own, or those of one warpgroup would disagree about an
// item: only the producer looks at the abort flag, and what ends it ends all of them at the same item, by a tag that
// says stop. A consumer that fails elsewhere takes and releases items until that tag comes. So the producer's waits are
// answered as long as consumers run, and the consumers' as long as the producer's other waits are bounded. The bounds
// of the waits below fire only where a program breaks these rules; then each side ends on its own.

#include <cstdint>

#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "cuda/sync/wait.hpp"
#include "flow/ring_fault.hpp"

namespace megamoe::sync {

/// The tag behind which no item comes. Not to be used as one.
inline constexpr uint32_t kRingStop = 0xFFFFFFFFU;

/// Consumers wait this many time-outs: whatever the producer waits for times out before, and names the cause.
inline constexpr uint32_t kConsumerPatience = 2;

/// What a ring keeps in shared memory; the slots themselves are the caller's.
template <uint32_t kNumSlots>
struct RingState {
  uint64_t filled[kNumSlots];    // mbarriers: 1 arrival and the bytes of the copies
  uint64_t issued[kNumSlots];    // mbarriers: 1 arrival when the item is published
  uint64_t released[kNumSlots];  // mbarriers: 1 arrival of each consumer warp
  uint32_t tags[kNumSlots];
};

/// A place in the sequence of items, kept by each thread for itself.
template <uint32_t kNumSlots>
struct RingCursor {
  uint32_t slot = 0;
  uint32_t round = 0;  ///< how often the ring has come round

  MM_DEVICE void advance() {
    if (++slot < kNumSlots) return;
    slot = 0;
    ++round;
  }
  /// Items before this one.
  MM_DEVICE uint64_t num_items() const { return uint64_t{round} * kNumSlots + slot; }
};

template <uint32_t kNumSlots>
class Ring {
 public:
  using Cursor = RingCursor<kNumSlots>;

  MM_DEVICE explicit Ring(RingState<kNumSlots>* state) : state_(state) {}

  /// By one thread; others may use the ring after the sync_threads that follows.
  MM_DEVICE void init(uint32_t num_consumer_warps) const {
    for (uint32_t i = 0; i < kNumSlots; ++i) {
      ptx::mbarrier_init(&state_->filled[i], 1);
      ptx::mbarrier_init(&state_->issued[i], 1);
      ptx::mbarrier_init(&state_->released[i], num_consumer_warps);
    }
    ptx::fence_mbarrier_init();
  }

  /// The mbarrier on which the copies into the slot complete.
  MM_DEVICE uint64_t* filled(const Cursor& at) const { return &state_->filled[at.slot]; }

  // --- The producer, one thread. It may be several slots ahead with expect(), and publishes in order. ---

  /// Until the slot's last item was released. False: stop(), then leave.
  MM_DEVICE GoOn wait_released(const Waiter& waiter, const Cursor& at) const {
    return wait_released(waiter, at, Heeds::abort_flag);
  }

  /// Bytes of copies that are issued before publish().
  MM_DEVICE void expect(const Cursor& at, uint32_t num_bytes) const {
    ptx::mbarrier_expect_tx(&state_->filled[at.slot], num_bytes);
  }

  /// The item is complete once `num_bytes`, and those of expect(), have come. What this thread wrote before is visible
  /// to consumers.
  MM_DEVICE void publish(const Cursor& at, uint32_t num_bytes, uint32_t tag) const {
    simt::store(&state_->tags[at.slot], tag);
    ptx::mbarrier_arrive_expect_tx(&state_->filled[at.slot], num_bytes);  // publish(ring)
    ptx::mbarrier_arrive(&state_->issued[at.slot]);                       // publish(ring_issue)
  }

  /// Ends the sequence: all consumers stop at item `next`, the first that was not published. `ahead`: the first whose
  /// slot the producer has not waited for; the copies of expect() between them need not be all issued, but all
  /// expected bytes do come. Returns when no copy is under way any more, so that the block may exit.
  MM_DEVICE void stop(const Waiter& waiter, Cursor next, Cursor ahead) const {
    if (next.num_items() == ahead.num_items()) {
      if (!wait_released(waiter, next, Heeds::time_only)) return drain(ahead);
      ahead.advance();
    }
    for (; next.num_items() != ahead.num_items(); next.advance()) publish(next, 0, kRingStop);
    drain(ahead);
  }

  // --- The consumers. All lanes of each warp call them. ---

  /// Until the item is complete; gives its tag. kRingStop: there is no such item, leave.
  MM_DEVICE uint32_t wait_filled(const Waiter& waiter, const Cursor& at) const {
    const Watched watched{flow::kRingFilled, at.slot, at.num_items() + 1U};
    // consume(ring)
    if (!wait_for_phase(waiter, &state_->filled[at.slot], at.round & 1U, watched, Heeds::time_only)) return kRingStop;
    return simt::load(&state_->tags[at.slot]);
  }

  /// The same for a consumer that has not taken the slot's last item: other warps have. Its completion must not be
  /// mistaken for this one's, and the barrier tells a round only from the next. REQUIRES the slot's last item was
  /// published, and what says so has been acquired.
  MM_DEVICE uint32_t wait_filled_after_others(const Waiter& waiter, const Cursor& at) const {
    const Watched watched{flow::kRingFilled, at.slot, at.num_items() + 1U};
    // consume(ring_issue)
    if (!wait_for_phase(waiter, &state_->issued[at.slot], at.round & 1U, watched, Heeds::time_only)) return kRingStop;
    return wait_filled(waiter, at);
  }

  /// The warp has read what it needs of the slot. `num_warps`: warps that it stands for, where others do not take part
  /// in this item.
  MM_DEVICE void release(const Cursor& at, uint32_t num_warps = 1) const {
    simt::syncwarp();
    if (simt::elect_one()) ptx::mbarrier_arrive(&state_->released[at.slot], num_warps);  // publish(ring_release)
  }

 private:
  /// What ends a wait before its condition holds.
  enum class Heeds : uint8_t { abort_flag, time_only };

  MM_DEVICE GoOn wait_released(const Waiter& waiter, const Cursor& at, Heeds heeds) const {
    // In the first round the slots are free: the phase before the first counts as complete.
    const Watched watched{flow::kRingReleased, at.slot, at.num_items() + 1U - kNumSlots};
    // consume(ring_release)
    return wait_for_phase(waiter, &state_->released[at.slot], (at.round & 1U) ^ 1U, watched, heeds);
  }

  /// Until every copy that was expected before `ahead` has come. Only the producer arrives, so no phase is missed.
  MM_DEVICE void drain(Cursor at) const {
    for (uint32_t i = 0; i < kNumSlots; ++i, at.advance()) {
      ptx::mbarrier_wait(&state_->filled[at.slot], (at.round & 1U) ^ 1U);
    }
  }

  MM_DEVICE static GoOn wait_for_phase(const Waiter& waiter, uint64_t* mbarrier, uint32_t parity,
                                       const Watched& watched, Heeds heeds) {
    if (ptx::mbarrier_try_wait(mbarrier, parity)) return true;
    const uint32_t* abort_flag = waiter.own().get<flow::Field::abort_flag>();
    const uint64_t limit_ns =
        watched.field == flow::kRingFilled ? kConsumerPatience * waiter.timeout_ns : waiter.timeout_ns;
    const uint64_t begin_ns = simt::global_timer_ns();
    do {
      if (heeds == Heeds::abort_flag && ptx::ld_acquire<ptx::Scope::sys>(abort_flag) != 0U) {  // consume(abort_flag)
        return false;
      }
      if (simt::global_timer_ns() - begin_ns > limit_ns) {
        record_fault(waiter, watched, watched.wanted - 1U);
        return false;
      }
    } while (!ptx::mbarrier_try_wait(mbarrier, parity));
    return true;
  }

  RingState<kNumSlots>* state_;
};

}  // namespace megamoe::sync
