#pragma once

// The CPUs that the command may use, and where a plan's threads go on them: what `megamoe info` and `megamoe plan` say.

#include <optional>
#include <string>

#include "console.hpp"
#include "megamoe/megamoe.hpp"
#include "topology/topology.hpp"

namespace megamoe::cli {

struct Cpus {
  topology::Topology topology;  ///< within the affinity mask
  std::optional<double> quota;  ///< CPUs' worth of time that the control groups grant; none = no limit

  /// Threads that a layer starts by default, over all ranks.
  uint32_t num_default_threads() const { return topology::num_useful_threads(topology, quota); }
};

Cpus read_cpus();

/// "16 CPUs in the affinity mask, CPU quota 8.00, 16 cores in 2 NUMA nodes".
std::string cpus_text(const Cpus& cpus);
Json cpus_json(const Cpus& cpus);

/// "node; rank 0 on node 0, rank 1 on node 1": how threads are bound and in which memories each rank's buffers lie. All
/// ranks are taken to live in one process.
std::string pin_text(const Cpus& cpus, const PlanInfo& plan);
/// [num_ranks]: the NUMA nodes of each rank.
Json rank_nodes_json(const Cpus& cpus, const PlanInfo& plan);

}  // namespace megamoe::cli
