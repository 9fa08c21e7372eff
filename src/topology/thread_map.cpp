#include "topology/thread_map.hpp"

#include <algorithm>
#include <atomic>

namespace megamoe::topology {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

ThreadMap::ThreadMap(const Topology& topology, const Workers& workers, Pin pin)
    : first_rank_(workers.first_rank), threads_per_rank_(workers.threads_per_rank), rank_nodes_(workers.num_ranks) {
  std::vector<uint32_t> node_of_core;
  std::vector<uint32_t> all_nodes;
  for (uint32_t n = 0; n < topology.nodes.size(); ++n) {
    const Node& node = topology.nodes[n];
    node_of_core.insert(node_of_core.end(), node.cores.size(), n);
    all_nodes.push_back(node.os_idx);
    if (pin == Pin::node) places_.push_back({next_id(), node.cpus()});
    if (pin == Pin::core) {
      for (const Core& core : node.cores) places_.push_back({next_id(), core.cpus});
    }
  }
  const bool has_choice = topology.nodes.size() > 1;
  if (pin == Pin::none) {
    if (has_choice) std::fill(rank_nodes_.begin(), rank_nodes_.end(), all_nodes);
    return;
  }
  const uint64_t num_threads = workers.num_threads();
  for (uint64_t thread = 0; thread < num_threads; ++thread) {
    const auto core_idx = static_cast<uint32_t>(thread * node_of_core.size() / num_threads);
    const uint32_t node_idx = node_of_core[core_idx];
    place_idx_.push_back(pin == Pin::node ? node_idx : core_idx);
    std::vector<uint32_t>& nodes = rank_nodes_[thread / threads_per_rank_];
    const uint32_t os_idx = topology.nodes[node_idx].os_idx;
    if (has_choice && (nodes.empty() || nodes.back() != os_idx)) nodes.push_back(os_idx);
  }
}

const Place* ThreadMap::place(uint32_t local_rank_idx, uint32_t worker_idx) const {
  if (place_idx_.empty()) return nullptr;
  return &places_[place_idx_[uint64_t{first_rank_ + local_rank_idx} * threads_per_rank_ + worker_idx]];
}

std::vector<uint32_t> ThreadMap::shared_nodes(uint32_t num_local_ranks) const {
  std::vector<uint32_t> all;
  for (uint32_t rank = first_rank_; rank < first_rank_ + num_local_ranks; ++rank) {
    all.insert(all.end(), rank_nodes_[rank].begin(), rank_nodes_[rank].end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Pin resolve_pin(Pin wanted, const Topology& topology, const Workers& workers) {
  if (wanted != Pin::automatic) return wanted;
  // What does not divide by the ranks may stay idle, as it does by default.
  const bool is_filled = workers.threads_per_rank >= std::max(1U, topology.num_cores() / workers.num_ranks);
  return topology.nodes.size() > 1 && is_filled ? Pin::node : Pin::none;
}

}  // namespace megamoe::topology
