#include "cpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "topology/cpu_quota.hpp"
#include "topology/thread_map.hpp"

namespace megamoe::cli {
namespace {

/// Nodes of one rank's memory; where there is only one node, that one.
std::vector<uint32_t> nodes_of(const topology::ThreadMap& map, const Cpus& cpus, uint32_t rank) {
  return cpus.topology.nodes.size() == 1 ? std::vector{cpus.topology.nodes.front().os_idx} : map.nodes(rank);
}

topology::ThreadMap map_of(const Cpus& cpus, const PlanInfo& plan) {
  return {cpus.topology, {plan.num_ranks, plan.threads_per_rank}, plan.pin};
}

std::string counted(size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

Cpus read_cpus() { return {.topology = topology::usable(), .quota = topology::cpu_quota()}; }

std::string cpus_text(const Cpus& cpus) {
  return fmt::format(
      "{} in the affinity mask, CPU quota {}, {} in {}", counted(cpus.topology.num_cpus(), "CPU", "CPUs"),
      cpus.quota ? fmt::format("{:.2f}", *cpus.quota) : "none", counted(cpus.topology.num_cores(), "core", "cores"),
      counted(cpus.topology.nodes.size(), "NUMA node", "NUMA nodes"));
}

Json cpus_json(const Cpus& cpus) {
  Json nodes = Json::array();
  for (const topology::Node& node : cpus.topology.nodes) {
    nodes.push_back({{"node", node.os_idx}, {"cores", node.cores.size()}, {"cpus", node.cpus()}});
  }
  return {{"usable_threads", cpus.topology.num_cpus()},
          {"cores", cpus.topology.num_cores()},
          {"cpu_quota", cpus.quota ? Json(*cpus.quota) : Json()},
          {"default_threads", cpus.num_default_threads()},
          {"numa_nodes", nodes}};
}

std::string pin_text(const Cpus& cpus, const PlanInfo& plan) {
  std::string text(to_string(plan.pin));
  const topology::ThreadMap map = map_of(cpus, plan);
  for (uint32_t rank = 0; rank < plan.num_ranks; ++rank) {
    const std::vector<uint32_t> nodes = nodes_of(map, cpus, rank);
    text += fmt::format("{} rank {} on {} {}", rank == 0 ? ";" : ",", rank, nodes.size() == 1 ? "node" : "nodes",
                        fmt::join(nodes, "+"));
  }
  return text;
}

Json rank_nodes_json(const Cpus& cpus, const PlanInfo& plan) {
  const topology::ThreadMap map = map_of(cpus, plan);
  Json ranks = Json::array();
  for (uint32_t rank = 0; rank < plan.num_ranks; ++rank) ranks.push_back(nodes_of(map, cpus, rank));
  return ranks;
}

}  // namespace megamoe::cli
