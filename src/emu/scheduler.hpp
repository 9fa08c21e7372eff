#pragma once

// Who runs next. One seeded draw decides at every point where a real machine could switch.
//
// The scheduler picks a warp at random and runs its ready lanes in turn until they wait or a countdown of lane-steps
// ends; the mean countdown and the share that each warp gets are drawn from the seed, so that some seeds interleave
// finely and others starve single warps for long.

#include <cstdint>
#include <vector>

#include "emu/fiber.hpp"
#include "emu/random.hpp"
#include "emu/state.hpp"

namespace megamoe::emu {

class World;

class Scheduler {
 public:
  explicit Scheduler(World& world) : world_(world) {}

  /// Gives the lane a stack and makes it ready to run `entry`.
  void start(Lane& lane);
  /// Draws the character of this run from the seed.
  void begin(uint32_t num_steps_per_switch);
  /// Runs until every lane has exited or the run is stopped.
  void run();
  /// Ends a lane that will never run again; its stack is unwound.
  void abandon(Lane& lane);

  void make_ready(Lane& lane);

  // Called by the running lane.
  /// Lets others run; the lane stays ready.
  void yield();
  /// Waits until somebody makes this lane ready.
  void block(const Wait& wait);
  /// The same, for a lane that polls: it is also woken to look at the clock, or when a watched address changes.
  void park(const Wait& wait);
  /// Ends the run from within a lane. Never returns.
  [[noreturn]] void stop();
  /// The run ends as soon as the running lane gives way.
  void request_stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  /// The running lane has used up its steps.
  void countdown_ended();
  uint32_t draw_countdown();
  uint32_t draw_laziness();
  uint64_t num_switches() const { return num_switches_; }
  /// What the countdown started from.
  uint32_t last_countdown() const { return last_countdown_; }

 private:
  Warp& pick();
  void run_warp(Warp& warp);
  void resume(Lane& lane);
  void switch_out();
  void leave_ready(Warp& warp);
  /// Readies parked lanes whose watched memory has changed.
  bool wake_changed();
  void wake_parked();
  /// Looks for something that can go on when no lane can; false ends the run.
  bool nothing_ready();
  /// Every lane waits and nothing is under way: a deadlock, unless polls may still look at the clock.
  bool stalled();

  World& world_;
  StackPool* stacks_ = nullptr;  ///< of the thread that runs this machine
  Context context_;              // of run(), while a lane runs
  std::vector<Warp*> ready_;
  std::vector<Lane*> parked_;
  bool preempted_ = false;
  bool stopped_ = false;
  uint32_t mean_countdown_ = 32;
  uint32_t last_countdown_ = 1;
  uint32_t max_laziness_ = 0;
  uint64_t num_switches_ = 0;
  uint32_t num_live_ = 0;  ///< lanes started and not exited
  uint32_t picks_until_scan_ = 0;
  uint64_t version_at_stall_ = ~uint64_t{0};
  uint32_t num_live_at_stall_ = 0;
  uint32_t num_idle_stalls_ = 0;  ///< in a row, without progress between them
  uint64_t stall_step_ns_ = 0;
  uint64_t waited_ns_ = 0;
};

}  // namespace megamoe::emu
