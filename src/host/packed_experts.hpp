#pragma once

// The packed experts of this process's ranks.

#include <functional>
#include <vector>

#include "cpu/worker.hpp"
#include "host/crew.hpp"
#include "host/local_experts.hpp"
#include "host/memory.hpp"
#include "megamoe/megamoe.hpp"
#include "topology/thread_map.hpp"

namespace megamoe::internal {

class PackedExperts {
 public:
  PackedExperts() = default;

  /// Asks `weights` for every expert of the local ranks, one at a time, and has `crew` pack it into memory near the
  /// threads of its rank. Shared experts are packed once and serve all local ranks. Errors: whatever `weights` returns;
  /// a broken rule of an expert, by name.
  static Result<PackedExperts> pack(const LocalExperts& local, const WeightSource& weights,
                                    const topology::ThreadMap& threads, Crew& crew,
                                    const std::function<void(uint64_t, uint64_t)>& progress);

  /// Experts of one local rank, by LocalExpert. The views live as long as this object.
  const std::vector<cpu::PackedExpert>& of_rank(uint32_t local_rank_idx) const { return ranks_[local_rank_idx]; }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  Result<cpu::PackedExpert> pack_one(const ExpertWeights& weights, const LayerShape& shape, std::string_view name,
                                     const std::vector<uint32_t>& nodes, Crew& crew);

  std::vector<PrivateMemory> memory_;                  // one per expert
  std::vector<std::vector<cpu::PackedExpert>> ranks_;  // [num_local_ranks][num_local]
  uint64_t num_bytes_ = 0;
};

}  // namespace megamoe::internal
