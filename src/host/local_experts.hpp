#pragma once

// The experts that a process packs, one at a time, in the order in which their weights are asked for.

#include <fmt/format.h>

#include <functional>
#include <string>

#include "flow/route.hpp"
#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// Whose experts are packed: those of ranks [first_rank, first_rank + num_ranks), which live in this process.
struct LocalExperts {
  const flow::Placement& placement;
  const LayerShape& shape;
  uint32_t first_rank = 0;
  uint32_t num_ranks = 1;

  uint64_t num_experts() const {
    uint64_t count = placement.num_shared;
    for (uint32_t i = 0; i < num_ranks; ++i) count += placement.num_routed(flow::Rank{first_rank + i});
    return count;
  }

  /// Asks `weights` for the shared experts, which serve all local ranks, and calls
  /// pack_shared(weights of one expert, its name in errors) -> Status; then for every local rank's routed experts, and
  /// calls pack_routed(local_rank_idx, weights, name). Stops at the first status that is not ok, and returns it.
  template <class PackShared, class PackRouted>
  Status for_each(const WeightSource& weights, const std::function<void(uint64_t, uint64_t)>& progress,
                  const PackShared& pack_shared, const PackRouted& pack_routed) const {
    uint64_t num_done = 0;
    const auto report = [&] {
      if (progress) progress(++num_done, num_experts());
    };
    for (uint32_t s = 0; s < placement.num_shared; ++s) {
      const Result<ExpertWeights> expert = weights.shared(s);
      MM_RETURN_IF_ERROR(expert.status());
      MM_RETURN_IF_ERROR(pack_shared(*expert, fmt::format("shared expert {}", s)));
      report();
    }
    for (uint32_t i = 0; i < num_ranks; ++i) {
      const flow::Rank rank{first_rank + i};
      for (uint32_t e = 0; e < placement.num_routed(rank); ++e) {
        const uint32_t expert_idx = placement.first_routed(rank) + e;
        const Result<ExpertWeights> expert = weights.routed(expert_idx);
        MM_RETURN_IF_ERROR(expert.status());
        MM_RETURN_IF_ERROR(pack_routed(i, *expert, fmt::format("expert {}", expert_idx)));
        report();
      }
    }
    return {};
  }
};

}  // namespace megamoe::internal
