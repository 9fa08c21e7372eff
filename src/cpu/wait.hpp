#pragma once

// Bounded waits. A wait spins, then yields, then sleeps; it ends when its condition holds, when any rank has given up,
// or when time is up: then it records what it waited for and tells every rank to stop.

#include <cstdint>

#include "cpu/atomics.hpp"
#include "cpu/worker.hpp"

namespace megamoe::cpu {

/// What a wait watches, for the fault record.
struct Watched {
  flow::Field field{};
  uint32_t index = 0;
  uint64_t wanted = 0;
};

/// The slow half of a wait: one step of patience per call.
class Patience {
 public:
  Patience(Worker& worker, std::chrono::milliseconds limit);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// Spins, yields or sleeps a little. False when another rank gave up or time is up (then a fault is recorded).
  GoOn step(const Watched& watched, uint64_t seen);

 private:
  Worker& worker_;
  Clock::time_point begin_;
  std::chrono::milliseconds limit_;
  uint32_t num_steps_ = 0;
};

/// Waits until `*flag`, read with acquire, satisfies `is_reached(value)`.
template <class T, class Reached>
GoOn wait_for(Worker& worker, const T* flag, const Watched& watched, std::chrono::milliseconds limit,
              Reached&& is_reached) {
  T seen = load_acquire(flag);
  if (is_reached(seen)) return true;
  Patience patience(worker, limit);
  do {
    if (!patience.step(watched, seen)) return false;
    seen = load_acquire(flag);
  } while (!is_reached(seen));
  return true;
}

}  // namespace megamoe::cpu
