#include "emu/scheduler.hpp"

#include <algorithm>
#include <bit>
#include <exception>

#include "emu/deadlock.hpp"
#include "emu/polls.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

constexpr uint32_t kMinPicksPerScan = 64;
/// A loop that gives up after a number of looks is no deadlock; after this many it is taken for one.
constexpr uint32_t kMaxIdleStalls = 256;
constexpr uint64_t kFirstStallStepNs = 1'000;
constexpr uint64_t kLastStallStepNs = 1'000'000'000;

/// Runs the kernel in its lane. Returns what an exception says, or nothing.
std::string run_kernel(const Lane& lane) {
  try {
    lane.block->grid->kernel();
  } catch (const boost::context::detail::forced_unwind&) {
    throw;
  } catch (const std::exception& exception) {
    return std::string("the kernel threw: ") + exception.what();
  }
  return {};
}

}  // namespace

void Scheduler::start(Lane& lane) {
  ++num_live_;
  lane.context = Context(std::allocator_arg, PooledStack(*stacks_), [this, &lane](Context&& from) {
    context_ = std::move(from);
    const std::string exception = run_kernel(lane);
    // Only here, outside the handler: a lane must not be switched while an exception is being handled.
    if (!exception.empty()) world_.fail(FindingKind::kernel_exception, Where::current(), exception);
    lane.state = LaneState::exited;
    --num_live_;
    world_.lane_exited(lane);
    return std::move(context_);
  });
  make_ready(lane);
}

void Scheduler::begin(uint32_t num_steps_per_switch) {
  constexpr uint32_t kMeanCountdowns[] = {3, 10, 40, 200, 1000};
  Random& random = world_.random;
  mean_countdown_ = num_steps_per_switch != 0 ? num_steps_per_switch : kMeanCountdowns[random.below(5)];
  max_laziness_ = random.one_in(2) ? 0 : 8;
  stacks_ = &stack_pool(world_.options.stack_bytes);
  stopped_ = false;
  preempted_ = false;
  num_live_ = 0;
  num_switches_ = 0;
  version_at_stall_ = ~uint64_t{0};
  num_idle_stalls_ = 0;
  waited_ns_ = 0;
  stall_step_ns_ = kFirstStallStepNs;
  picks_until_scan_ = kMinPicksPerScan;
  ready_.clear();
  parked_.clear();
  last_countdown_ = draw_countdown();
}

uint32_t Scheduler::draw_countdown() {
  last_countdown_ = 1 + world_.random.below(2 * mean_countdown_ - 1);
  return last_countdown_;
}

uint32_t Scheduler::draw_laziness() { return max_laziness_ == 0 ? 0 : world_.random.below(max_laziness_); }

void Scheduler::make_ready(Lane& lane) {
  if (lane.state == LaneState::parked) {
    parked_.back()->parked_position = lane.parked_position;
    std::swap(parked_[lane.parked_position], parked_.back());
    parked_.pop_back();
  }
  lane.state = LaneState::ready;
  Warp& warp = *lane.warp;
  if (warp.ready == 0) {
    warp.ready_position = static_cast<uint32_t>(ready_.size());
    ready_.push_back(&warp);
  }
  warp.ready |= 1U << lane.lane_idx;
}

void Scheduler::leave_ready(Warp& warp) {
  ready_.back()->ready_position = warp.ready_position;
  std::swap(ready_[warp.ready_position], ready_.back());
  ready_.pop_back();
}

Warp& Scheduler::pick() {
  Warp* warp = nullptr;
  for (uint32_t i = 0; i < 4; ++i) {
    warp = ready_[world_.random.below(static_cast<uint32_t>(ready_.size()))];
    if (warp->laziness == 0 || world_.random.below(8) >= warp->laziness) break;
  }
  return *warp;
}

void Scheduler::resume(Lane& lane) {
  Warp& warp = *lane.warp;
  warp.ready &= ~(1U << lane.lane_idx);
  if (warp.ready == 0) leave_ready(warp);
  lane.state = LaneState::running;
  detail::current_lane = &lane;
  ++num_switches_;
  lane.context = std::move(lane.context).resume();
}

void Scheduler::run_warp(Warp& warp) {
  // Lanes take turns from a random one on, so that no order of lanes is a habit.
  const uint32_t first = world_.random.below(kWarpLanes);
  preempted_ = false;
  uint32_t offset = 0;
  while (warp.ready != 0) {
    const uint32_t rotated = std::rotr(warp.ready, static_cast<int>((first + offset) % kWarpLanes));
    offset += static_cast<uint32_t>(std::countr_zero(rotated));
    resume(warp.lanes[(first + offset) % kWarpLanes]);
    if (preempted_ || stopped_) return;
  }
}

void Scheduler::run() {
  while (!stopped_ && num_live_ > 0) {
    if (ready_.empty()) {
      if (!nothing_ready()) return;
      continue;
    }
    if (--picks_until_scan_ == 0) {
      wake_changed();
      picks_until_scan_ = kMinPicksPerScan + static_cast<uint32_t>(parked_.size());
    }
    world_.copies.maybe_advance();
    world_.stores.maybe_drain();
    if (ready_.empty()) continue;
    run_warp(pick());
  }
}

void Scheduler::switch_out() { context_ = std::move(context_).resume(); }

void Scheduler::yield() {
  Lane& lane = self();
  preempted_ = true;
  make_ready(lane);
  switch_out();
}

void Scheduler::countdown_ended() {
  world_.num_steps += last_countdown_;
  world_.countdown = draw_countdown();
  if (world_.num_steps > world_.options.max_steps) {
    world_.fail(FindingKind::step_limit, Where::current(),
                "the run took more steps than Options::max_steps; is something spinning without looking at memory?");
  }
  yield();
}

void Scheduler::block(const Wait& wait) {
  Lane& lane = self();
  lane.wait = wait;
  lane.state = LaneState::blocked;
  switch_out();
  lane.wait.kind = WaitKind::nothing;
}

void Scheduler::park(const Wait& wait) {
  Lane& lane = self();
  lane.wait = wait;
  lane.state = LaneState::parked;
  lane.parked_position = static_cast<uint32_t>(parked_.size());
  parked_.push_back(&lane);
  switch_out();
  lane.wait.kind = WaitKind::nothing;
}

void Scheduler::stop() {
  stopped_ = true;
  self().state = LaneState::blocked;
  for (;;) switch_out();
}

void Scheduler::abandon(Lane& lane) {
  if (lane.context) lane.context = Context();
}

bool Scheduler::wake_changed() {
  bool woken = false;
  for (size_t i = 0; i < parked_.size();) {
    Lane& lane = *parked_[i];
    const bool due = lane.wait.kind == WaitKind::sleep && lane.wait.wanted <= world_.now_ns();
    if (due || (lane.wait.kind == WaitKind::memory && has_changed(lane.polls))) {
      make_ready(lane);  // moves another lane to position i
      woken = true;
    } else {
      ++i;
    }
  }
  return woken;
}

void Scheduler::wake_parked() {
  while (!parked_.empty()) make_ready(*parked_.back());
}

bool Scheduler::nothing_ready() {
  // Whoever can see news sees them before more arrives: a late write must not wait until all others are there.
  return wake_changed() || world_.copies.advance() || world_.stores.drain_one() || stalled();
}

bool Scheduler::stalled() {
  const bool progressed = world_.version != version_at_stall_ || num_live_ != num_live_at_stall_;
  num_idle_stalls_ = progressed ? 0 : num_idle_stalls_ + 1;
  if (progressed) {
    waited_ns_ = 0;
    stall_step_ns_ = kFirstStallStepNs;
  }
  version_at_stall_ = world_.version;
  num_live_at_stall_ = num_live_;
  // Sleepers move the clock by themselves.
  uint64_t first_due = ~uint64_t{0};
  for (const Lane* lane : parked_) {
    if (lane->wait.kind == WaitKind::sleep) first_due = std::min(first_due, lane->wait.wanted);
  }
  const bool may_wait = world_.options.stall == Stall::advances_clock && waited_ns_ < world_.options.max_clock_ns;
  if (parked_.empty() || (num_idle_stalls_ > kMaxIdleStalls && !may_wait)) {
    note_deadlock(world_);
    stopped_ = true;
    return false;
  }
  const uint64_t now = world_.now_ns();
  const uint64_t step = first_due == ~uint64_t{0} ? stall_step_ns_ : std::max(first_due, now) - now;
  if (may_wait || first_due != ~uint64_t{0}) world_.clock_ns += step;
  if (!progressed) {
    waited_ns_ += step;
    stall_step_ns_ = std::min(2 * stall_step_ns_, kLastStallStepNs);
  }
  wake_parked();
  return true;
}

}  // namespace megamoe::emu
