// In a build without hwloc: no cores, no nodes, no memory policies.

#include "topology/topology.hpp"

namespace megamoe::topology {

std::optional<Topology> internal::read_machine() { return std::nullopt; }

Result<Topology> synthetic(const std::string&) {
  return Status(StatusCode::unsupported, "this build has no hwloc; configure with MM_WITH_HWLOC=ON");
}

void place_memory(std::byte*, uint64_t, std::span<const uint32_t>) {}

std::vector<uint32_t> memory_nodes(const std::byte*) { return {}; }

bool can_place_memory() { return false; }

}  // namespace megamoe::topology
