#pragma once

// Threads that wait for work between calls.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace megamoe::internal {

/// A team runs one set of jobs at a time, every job on a thread of its own, so that jobs may wait for each other.
class Team {
 public:
  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Starts threads until at least `num_threads` are there.
  void grow(uint32_t num_threads);

  /// Runs job(context, 0..num_jobs-1) and returns when all are done. REQUIRES grow(num_jobs) before, and one caller at
  /// a time. Allocates nothing.
  void run(uint32_t num_jobs, void (*job)(void* context, uint32_t job_idx), void* context);

 private:
  void serve(uint32_t thread_idx, uint64_t seen_round);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;
  uint64_t round_ = 0;
  uint32_t num_jobs_ = 0;
  uint32_t num_unfinished_ = 0;
  bool is_stopping_ = false;
  void (*job_)(void*, uint32_t) = nullptr;
  void* context_ = nullptr;
};

}  // namespace megamoe::internal
