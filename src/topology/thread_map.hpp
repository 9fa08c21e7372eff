#pragma once

// Which CPUs each worker runs on and in which memories each rank's buffers lie: a pure function of topology and counts.
//
// The rule: the workers of all ranks, rank by rank, are dealt evenly over the cores, node by node. So ranks take
// contiguous shares of the machine: with more ranks than nodes each has one node for itself, with fewer each has
// several. A rank's memory is dealt over exactly those nodes that its threads may run on.

#include <cstdint>
#include <vector>

#include "megamoe/megamoe.hpp"
#include "topology/topology.hpp"

namespace megamoe::topology {

/// The workers that share the CPUs of a topology.
struct Workers {
  uint32_t num_ranks = 1;
  uint32_t threads_per_rank = 1;
  uint32_t first_rank = 0;  ///< of those ranks that live in this process: local rank 0

  uint64_t num_threads() const { return uint64_t{num_ranks} * threads_per_rank; }
};

/// CPUs that a thread is bound to. No two places share an id, so that a thread knows whether it is there already.
struct Place {
  uint64_t id = 0;
  CpuList cpus;
};

class ThreadMap {
 public:
  ThreadMap() = default;
  /// REQUIRES at least one rank with at least one thread; `pin` is not automatic.
  ThreadMap(const Topology& topology, const Workers& workers, Pin pin);

  /// Null when the worker is not bound. Lives as long as the map.
  const Place* place(uint32_t local_rank_idx, uint32_t worker_idx) const;
  /// Nodes for a local rank's memory, in the topology's order; empty when the topology has only one.
  const std::vector<uint32_t>& nodes(uint32_t local_rank_idx) const {
    return rank_nodes_[first_rank_ + local_rank_idx];
  }
  /// The same for memory that the first `num_local_ranks` local ranks share.
  std::vector<uint32_t> shared_nodes(uint32_t num_local_ranks) const;

 private:
  uint32_t first_rank_ = 0;
  uint32_t threads_per_rank_ = 1;
  std::vector<Place> places_;                      // nodes or cores; empty when nothing is bound
  std::vector<uint32_t> place_idx_;                // [num_ranks * threads_per_rank]; empty when nothing is bound
  std::vector<std::vector<uint32_t>> rank_nodes_;  // [num_ranks]
};

/// What `automatic` stands for: node where several nodes are filled by the workers, else none. Threads that leave cores
/// idle (few were asked for, or a quota allows no more) are better moved by the system, away from other programs.
Pin resolve_pin(Pin wanted, const Topology& topology, const Workers& workers);

}  // namespace megamoe::topology
