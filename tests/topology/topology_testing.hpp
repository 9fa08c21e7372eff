#pragma once

// Machines to try rules on, and an affinity mask for the length of a test.

#include <gtest/gtest.h>

#include "topology/topology.hpp"

namespace megamoe::topology {

/// CPUs are numbered core by core, as hwloc numbers those of its synthetic machines.
inline Topology machine_of(uint32_t num_nodes, uint32_t cores_per_node, uint32_t threads_per_core) {
  Topology machine;
  uint32_t cpu = 0;
  for (uint32_t n = 0; n < num_nodes; ++n) {
    Node node{n, {}};
    for (uint32_t c = 0; c < cores_per_node; ++c) {
      Core core;
      for (uint32_t t = 0; t < threads_per_core; ++t) core.cpus.push_back(cpu++);
      node.cores.push_back(core);
    }
    machine.nodes.push_back(node);
  }
  return machine;
}

/// The calling thread, and those it starts, may run on `cpus` alone while this lives.
class WithMask {
 public:
  explicit WithMask(const CpuList& cpus) : before_(affinity_mask()) { apply(cpus); }
  ~WithMask() { apply(before_); }
  WithMask(const WithMask&) = delete;
  WithMask& operator=(const WithMask&) = delete;

 private:
  static void apply(const CpuList& cpus) { EXPECT_TRUE(CpuMask::of(cpus).apply()); }
  CpuList before_;
};

}  // namespace megamoe::topology
