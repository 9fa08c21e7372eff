#pragma once

// Threads that wait for work between calls.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace megamoe::internal {

/// A team runs one set of jobs at a time, every job on a thread of its own (the first on the caller's), so that jobs
/// may wait for each other. Between sets its threads look for work for a short while before they sleep: a model calls
/// one layer after the other, and waking a thread takes longer than a decode step of a small expert.
class Team {
 public:
  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Starts threads until sets of `num_jobs` jobs can run. `num_cpus`: threads that can make progress at once.
  void grow(uint32_t num_jobs, uint32_t num_cpus);

  /// Runs job(context, 0..num_jobs-1) and returns when all are done. REQUIRES grow(num_jobs) before, and one caller at
  /// a time. Allocates nothing.
  void run(uint32_t num_jobs, void (*job)(void* context, uint32_t job_idx), void* context);

 private:
  /// One round: a number that goes up, and how many jobs it has. One word, so that nobody sees half of a change.
  static constexpr uint64_t kRoundStep = uint64_t{1} << 32;

  void serve(uint32_t job_idx, uint64_t seen_round);
  /// Returns when `reached` holds: looks for a short while, then sleeps on `condition`. REQUIRES whoever makes it hold
  /// does so under the mutex and notifies.
  template <class Reached>
  void await(std::condition_variable& condition, Reached reached);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;  // thread i runs job i + 1
  std::atomic<uint32_t> num_threads_ = 0;
  std::atomic<uint32_t> num_cpus_ = 1;
  std::atomic<uint64_t> round_ = 0;  // number * kRoundStep + jobs
  std::atomic<uint32_t> num_unfinished_ = 0;
  std::atomic<bool> is_stopping_ = false;
  // Of the current round; written before round_ goes up, read by threads that have a job in it.
  void (*job_)(void*, uint32_t) = nullptr;
  void* context_ = nullptr;
};

}  // namespace megamoe::internal
