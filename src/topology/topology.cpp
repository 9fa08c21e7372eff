#include "topology/topology.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace megamoe::topology {
namespace {

/// `cpus` that are in `mask`, which is ascending.
CpuList common(const CpuList& cpus, const CpuList& mask) {
  CpuList both;
  std::set_intersection(cpus.begin(), cpus.end(), mask.begin(), mask.end(), std::back_inserter(both));
  return both;
}

}  // namespace

CpuList Node::cpus() const {
  CpuList all;
  for (const Core& core : cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  std::sort(all.begin(), all.end());
  return all;
}

CpuList Topology::cpus() const {
  CpuList all;
  for (const Node& node : nodes) {
    const CpuList cpus = node.cpus();
    all.insert(all.end(), cpus.begin(), cpus.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

uint32_t Topology::num_cpus() const { return static_cast<uint32_t>(cpus().size()); }

uint32_t Topology::num_cores() const {
  size_t num = 0;
  for (const Node& node : nodes) num += node.cores.size();
  return static_cast<uint32_t>(num);
}

std::optional<CpuMask> CpuMask::of_this_thread() {
  CpuMask mask;
  if (sched_getaffinity(0, sizeof(mask.sets), mask.sets.data()) != 0) return std::nullopt;
  return mask;
}

CpuMask CpuMask::of(const CpuList& cpus) {
  CpuMask mask;
  for (const uint32_t cpu : cpus) CPU_SET_S(cpu, sizeof(mask.sets), mask.sets.data());
  return mask;
}

bool CpuMask::apply() const { return sched_setaffinity(0, sizeof(sets), sets.data()) == 0; }

CpuList affinity_mask() {
  CpuList cpus;
  const std::optional<CpuMask> mask = CpuMask::of_this_thread();
  for (uint32_t cpu = 0; mask && cpu < CpuMask::kMaxCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(mask->sets), mask->sets.data())) cpus.push_back(cpu);
  }
  return cpus.empty() ? CpuList{0} : cpus;
}

Topology restricted(const Topology& whole, const CpuList& mask) {
  Topology part;
  for (const Node& node : whole.nodes) {
    Node left{node.os_idx, {}};
    for (const Core& core : node.cores) {
      CpuList cpus = common(core.cpus, mask);
      if (!cpus.empty()) left.cores.push_back({std::move(cpus)});
    }
    if (!left.cores.empty()) part.nodes.push_back(std::move(left));
  }
  const CpuList known = part.cpus();
  CpuList unknown;
  std::set_difference(mask.begin(), mask.end(), known.begin(), known.end(), std::back_inserter(unknown));
  if (!unknown.empty() && part.nodes.empty()) part.nodes.emplace_back();
  for (const uint32_t cpu : unknown) part.nodes.front().cores.push_back({{cpu}});
  return part;
}

Topology usable() {
  static const Topology machine = internal::read_machine().value_or(Topology{});
  return restricted(machine, affinity_mask());
}

uint32_t num_useful_threads(const Topology& topology, std::optional<double> quota) {
  const uint32_t num_cpus = std::max(1U, topology.num_cpus());
  if (!quota || std::ceil(*quota) >= num_cpus) return num_cpus;
  return std::max(1U, static_cast<uint32_t>(std::ceil(*quota)));
}

}  // namespace megamoe::topology
