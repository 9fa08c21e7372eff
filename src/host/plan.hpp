#pragma once

// The plan: every number of a layer that does not depend on weights or tokens, computed once.

#include "cpu/worker.hpp"
#include "megamoe/megamoe.hpp"
#include "topology/topology.hpp"

namespace megamoe::internal {

/// The public plan and what the CPU backend needs of it.
struct Plan {
  PlanInfo info;
  cpu::LayerRules rules;
  topology::Topology topology;      ///< what this process may use
  uint32_t num_useful_threads = 1;  ///< of this process, by affinity mask and CPU quota
};

/// Validates `config` and plans it for `num_ranks` ranks. Errors: invalid_argument, unsupported.
Result<Plan> make_plan(const LayerConfig& config, uint32_t num_ranks);

/// The numbers on which all ranks of a group must agree, by name.
std::vector<std::pair<std::string, uint64_t>> agreement(const Plan& plan);

}  // namespace megamoe::internal
