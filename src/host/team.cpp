#include "host/team.hpp"

#include <chrono>

namespace megamoe::internal {
namespace {

/// Longer than the gap between two layers of a model, short enough to cost an idle program nothing that shows.
constexpr auto kLookFor = std::chrono::microseconds(100);

}  // namespace

template <class Reached>
void Team::await(std::condition_variable& condition, Reached reached) {
  // With more threads than CPUs whoever looks takes the CPU from whoever works.
  if (num_threads_ < num_cpus_) {
    const auto until = std::chrono::steady_clock::now() + kLookFor;
    while (std::chrono::steady_clock::now() < until) {
      if (reached()) return;
      std::this_thread::yield();
    }
  }
  std::unique_lock lock(mutex_);
  condition.wait(lock, reached);
}

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::grow(uint32_t num_jobs, uint32_t num_cpus) {
  num_cpus_ = num_cpus;
  while (threads_.size() + 1 < num_jobs) {
    const auto job_idx = static_cast<uint32_t>(threads_.size() + 1);
    threads_.emplace_back([this, job_idx, round = round_.load()] { serve(job_idx, round); });
    num_threads_ = job_idx;
  }
}

void Team::run(uint32_t num_jobs, void (*job)(void* context, uint32_t job_idx), void* context) {
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    context_ = context;
    num_unfinished_ = num_jobs - 1;
    round_ = (round_ / kRoundStep + 1) * kRoundStep + num_jobs;
  }
  if (num_jobs > 1) work_.notify_all();
  job(context, 0);
  await(done_, [this] { return num_unfinished_ == 0; });
}

void Team::serve(uint32_t job_idx, uint64_t seen_round) {
  while (true) {
    await(work_, [&] { return is_stopping_ || round_ != seen_round; });
    if (is_stopping_) return;
    seen_round = round_;
    if (job_idx >= seen_round % kRoundStep) continue;
    job_(context_, job_idx);
    if (--num_unfinished_ == 0) {
      const std::lock_guard lock(mutex_);
      done_.notify_all();
    }
  }
}

}  // namespace megamoe::internal
