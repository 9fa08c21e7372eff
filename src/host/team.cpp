#include "host/team.hpp"

namespace megamoe::internal {

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::grow(uint32_t num_threads) {
  const std::lock_guard lock(mutex_);
  while (threads_.size() < num_threads) {
    const auto thread_idx = static_cast<uint32_t>(threads_.size());
    threads_.emplace_back([this, thread_idx, round = round_] { serve(thread_idx, round); });
  }
}

void Team::run(uint32_t num_jobs, void (*job)(void* context, uint32_t job_idx), void* context) {
  std::unique_lock lock(mutex_);
  job_ = job;
  context_ = context;
  num_jobs_ = num_jobs;
  num_unfinished_ = num_jobs;
  ++round_;
  work_.notify_all();
  done_.wait(lock, [this] { return num_unfinished_ == 0; });
}

void Team::serve(uint32_t thread_idx, uint64_t seen_round) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return is_stopping_ || round_ != seen_round; });
    if (is_stopping_) return;
    seen_round = round_;
    if (thread_idx >= num_jobs_) continue;
    lock.unlock();
    job_(context_, thread_idx);
    lock.lock();
    if (--num_unfinished_ == 0) done_.notify_all();
  }
}

}  // namespace megamoe::internal
