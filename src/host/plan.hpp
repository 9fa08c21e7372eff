#pragma once

// The plan: every number of a layer that does not depend on weights or tokens, computed once.

#include <string>
#include <utility>
#include <vector>

#include "cpu/worker.hpp"
#include "host/layer_rules.hpp"
#include "megamoe/megamoe.hpp"
#include "topology/topology.hpp"

namespace megamoe::internal {

/// What the CPU backend plans for itself.
struct CpuPlan {
  const cpu::Kernels* kernels = nullptr;
  uint32_t num_workers = 1;         ///< threads per rank
  topology::Topology topology;      ///< what this process may use
  uint32_t num_useful_threads = 1;  ///< of this process, by affinity mask and CPU quota
};

/// What the Hopper backend plans for itself.
struct Sm90Plan {
  uint32_t ranks_per_gpu = 1;    ///< on the GPU that has most
  uint32_t blocks_per_rank = 1;  ///< its workers: as many SMs
};

/// The public plan, the rules that all backends share, and what info.backend needs besides.
struct Plan {
  PlanInfo info;
  LayerRules rules;
  CpuPlan cpu;    ///< of Backend::cpu
  Sm90Plan sm90;  ///< of Backend::sm90 and Backend::chain
};

/// The config's rules for a layer of these dims. REQUIRES a config that validate_config() accepts.
LayerRules make_rules(const LayerConfig& config, const flow::Dims& dims);

/// Validates `config` and plans it for `num_ranks` ranks. Errors: invalid_argument, unsupported.
Result<Plan> make_plan(const LayerConfig& config, uint32_t num_ranks);

/// The rules as workers of the CPU backend take them. REQUIRES a plan for the CPU.
cpu::LayerRules cpu_rules(const Plan& plan);

/// The numbers on which all ranks of a group must agree, by name.
std::vector<std::pair<std::string, uint64_t>> agreement(const Plan& plan);

}  // namespace megamoe::internal
