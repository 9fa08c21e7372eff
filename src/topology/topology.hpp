#pragma once

// The CPUs that this process may use, as cores and NUMA nodes. Read by hwloc; a build without it sees one node whose
// cores are the CPUs of the affinity mask.

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::topology {

/// CPUs, which are hardware threads, by the number that the operating system gives them, ascending.
using CpuList = std::vector<uint32_t>;

struct Core {
  CpuList cpus;  ///< not empty: more than one where cores run several hardware threads
};

/// Cores that are equally near to one memory.
struct Node {
  uint32_t os_idx = 0;  ///< the operating system's number
  std::vector<Core> cores;

  CpuList cpus() const;
};

struct Topology {
  std::vector<Node> nodes;  ///< at least one, none without cores

  uint32_t num_cpus() const;
  uint32_t num_cores() const;
  CpuList cpus() const;
};

/// A set of CPUs as the system takes it: as many as a Linux kernel can be built for.
struct CpuMask {
  std::array<cpu_set_t, 8> sets{};

  static constexpr uint32_t kMaxCpus = 8 * CPU_SETSIZE;
  /// The calling thread's; none if the system does not say. Allocates nothing.
  static std::optional<CpuMask> of_this_thread();
  /// REQUIRES cpus below kMaxCpus. Allocates nothing.
  static CpuMask of(const CpuList& cpus);
  /// Binds the calling thread; false when the system refuses. Allocates nothing.
  bool apply() const;
};

/// CPUs that the calling thread may run on; {0} if the system does not say.
CpuList affinity_mask();

/// What `whole` leaves with `mask` alone. CPUs of the mask that `whole` does not know become cores of its first node.
Topology restricted(const Topology& whole, const CpuList& mask);

/// The machine within the calling thread's affinity mask. The machine is read on the first call, the mask on each.
Topology usable();

/// A machine by hwloc's description, "numa:2 core:4 pu:2". Errors: invalid_argument; unsupported without hwloc.
Result<Topology> synthetic(const std::string& description);

/// Threads that can make progress at once: one per CPU, but no more than the quota pays for, and at least one.
uint32_t num_useful_threads(const Topology& topology, std::optional<double> quota);

/// Asks that pages in [data, data + num_bytes) lie in the memories of `nodes`: near one node, or dealt over several in
/// turn; pages that lie elsewhere move. Without nodes nothing is asked. A wish: where the system refuses (containers
/// often may not set memory policies) or has no room there, pages go where they are first touched.
void place_memory(std::byte* data, uint64_t num_bytes, std::span<const uint32_t> nodes);

/// Nodes that place_memory() asked for and the system remembers for the page at `data`; empty if it has no such wish.
std::vector<uint32_t> memory_nodes(const std::byte* data);

/// Whether place_memory() is more than a wish here, tried with one page.
bool can_place_memory();

namespace internal {
/// The whole machine, or nothing where it cannot be read.
std::optional<Topology> read_machine();
}  // namespace internal

}  // namespace megamoe::topology
