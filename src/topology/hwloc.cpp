// The only file that knows hwloc.

#include <hwloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "host/errors.hpp"
#include "topology/topology.hpp"

namespace megamoe::topology {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using OwnedTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using OwnedBitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

/// A topology that holds cores, hardware threads and NUMA nodes; `configure` says of which machine. Null on failure.
template <class Configure>
OwnedTopology load(Configure configure) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  OwnedTopology topology(raw);
  // What is not looked for takes no time to find. (Packages and groups are needed: a NUMA node has the CPUs of the
  // object that it hangs from, and without them that is the whole machine.)
  hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (configure(raw) != 0 || hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

/// This machine, for the life of the process: memory policies go through it. Null if it cannot be read.
hwloc_topology_t machine() {
  static const OwnedTopology topology = load([](hwloc_topology_t) { return 0; });
  return topology.get();
}

/// Members of `set` that are not in `taken`, which they join: a CPU near to several memories counts once.
CpuList take(hwloc_const_bitmap_t set, hwloc_bitmap_t taken) {
  CpuList cpus;
  for (int cpu = hwloc_bitmap_next(set, -1); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    if (hwloc_bitmap_isset(taken, static_cast<unsigned>(cpu)) != 0) continue;
    hwloc_bitmap_set(taken, static_cast<unsigned>(cpu));
    cpus.push_back(static_cast<uint32_t>(cpu));
  }
  return cpus;
}

std::optional<Topology> convert(hwloc_topology_t topology) {
  const OwnedBitmap taken(hwloc_bitmap_alloc());
  const OwnedBitmap both(hwloc_bitmap_alloc());
  if (topology == nullptr || taken == nullptr || both == nullptr) return std::nullopt;
  Topology found;
  for (hwloc_obj_t memory = nullptr;
       (memory = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, memory)) != nullptr;) {
    Node node{memory->os_index, {}};
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
      hwloc_bitmap_and(both.get(), core->cpuset, memory->cpuset);
      if (CpuList cpus = take(both.get(), taken.get()); !cpus.empty()) node.cores.push_back({std::move(cpus)});
    }
    // Some virtual machines do not say which CPUs share a core.
    for (const uint32_t cpu : take(memory->cpuset, taken.get())) node.cores.push_back({{cpu}});
    if (!node.cores.empty()) found.nodes.push_back(std::move(node));
  }
  if (found.nodes.empty()) return std::nullopt;
  return found;
}

}  // namespace

std::optional<Topology> internal::read_machine() { return convert(machine()); }

Result<Topology> synthetic(const std::string& description) {
  const OwnedTopology topology =
      load([&description](hwloc_topology_t raw) { return hwloc_topology_set_synthetic(raw, description.c_str()); });
  std::optional<Topology> found = convert(topology.get());
  if (found) return *std::move(found);
  return invalid_argument("a synthetic machine must be described as hwloc does", description,
                          "write for example numa:2 core:4 pu:2");
}

void place_memory(std::byte* data, uint64_t num_bytes, std::span<const uint32_t> nodes) {
  if (num_bytes == 0 || nodes.empty() || machine() == nullptr) return;
  const OwnedBitmap set(hwloc_bitmap_alloc());
  if (set == nullptr) return;
  for (const uint32_t node : nodes) hwloc_bitmap_set(set.get(), node);
  const auto policy = nodes.size() == 1 ? HWLOC_MEMBIND_BIND : HWLOC_MEMBIND_INTERLEAVE;
  hwloc_set_area_membind(machine(), data, num_bytes, set.get(), policy,
                         HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_MIGRATE);
}

std::vector<uint32_t> memory_nodes(const std::byte* data) {
  const OwnedBitmap set(hwloc_bitmap_alloc());
  hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
  if (machine() == nullptr || set == nullptr ||
      hwloc_get_area_membind(machine(), data, 1, set.get(), &policy, HWLOC_MEMBIND_BYNODESET) != 0 ||
      (policy != HWLOC_MEMBIND_BIND && policy != HWLOC_MEMBIND_INTERLEAVE)) {
    return {};
  }
  const OwnedBitmap taken(hwloc_bitmap_alloc());
  return taken == nullptr ? std::vector<uint32_t>() : take(set.get(), taken.get());
}

bool can_place_memory() {
  const std::vector<uint32_t> node = {usable().nodes.front().os_idx};
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  place_memory(static_cast<std::byte*>(page), page_bytes, node);
  const bool is_remembered = memory_nodes(static_cast<std::byte*>(page)) == node;
  munmap(page, page_bytes);
  return is_remembered;
}

}  // namespace megamoe::topology
