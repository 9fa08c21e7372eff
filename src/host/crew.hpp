#pragma once

// The worker threads of a process, for work outside of calls: packing weights.

#include <atomic>
#include <cstdint>
#include <mutex>

#include "host/group.hpp"
#include "topology/thread_binding.hpp"

namespace megamoe::internal {

/// All worker threads of this process, each at its place, so that what they touch first lies near a rank's threads even
/// where memory cannot be placed.
class Crew {
 public:
  /// REQUIRES the group's team has grown to num_local_ranks * threads_per_rank jobs. Group and map outlive the crew.
  Crew(GroupState& group, const topology::ThreadMap& threads, uint32_t threads_per_rank)
      : group_(group), threads_(threads), threads_per_rank_(threads_per_rank) {}

  /// Calls part(0..num_parts-1), each once, on whichever thread is free. Waits for a call of the group that runs.
  template <class Part>
  void share(uint32_t num_parts, const Part& part) {
    struct Work {
      const Crew& crew;
      const Part& part;
      uint32_t num_parts;
      std::atomic<uint32_t> next_part = 0;
    } work{*this, part, num_parts};
    const std::lock_guard lock(group_.run_mutex());
    const topology::Visit visit(threads_.place(0, 0));
    const auto job = [](void* context, uint32_t job_idx) {
      Work& mine = *static_cast<Work*>(context);
      mine.crew.go_to_place(job_idx);
      for (uint32_t p = mine.next_part++; p < mine.num_parts; p = mine.next_part++) mine.part(p);
    };
    group_.team().run(group_.num_local_ranks * threads_per_rank_, job, &work);
  }

 private:
  void go_to_place(uint32_t job_idx) const {
    // The first job runs on the caller's thread, which visits.
    if (job_idx > 0) topology::move_to(threads_.place(job_idx / threads_per_rank_, job_idx % threads_per_rank_));
  }

  GroupState& group_;
  const topology::ThreadMap& threads_;
  uint32_t threads_per_rank_;
};

}  // namespace megamoe::internal
