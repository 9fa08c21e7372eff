#pragma once

// The ranks of one process on its GPUs: where each lives, its workspace, and launches over all of them.

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/host/runtime.hpp"
#include "cuda/sm90/launch.hpp"
#include "flow/workspace.hpp"

namespace megamoe::sm90 {

class DeviceRanks {
 public:
  /// One GPU each while there are enough; otherwise ranks share GPUs, as evenly as they divide. Workspaces are zero.
  /// Errors: no Hopper GPU; GPUs that cannot reach each other; more than kMaxVirtualRanks to a GPU; no memory.
  static Result<DeviceRanks> create(uint32_t num_ranks, const flow::WorkspaceLayout& layout);

  uint32_t num_ranks() const { return static_cast<uint32_t>(home_.size()); }
  uint32_t num_devices() const { return static_cast<uint32_t>(streams_.size()); }
  /// The GPU that `rank` lives on.
  const cuda::DeviceInfo& device(uint32_t rank) const { return devices_[home_[rank]]; }
  const cuda::Stream& stream(uint32_t rank) const { return streams_[home_[rank]]; }
  /// Ranks that share a GPU, on the one that has most.
  uint32_t num_ranks_per_device() const;
  /// [num_ranks], addresses that every kernel of every rank may use.
  std::span<std::byte* const> bases() const { return bases_; }

  /// Launches `kind` for all ranks, `arguments` [num_ranks], one grid to a GPU, and returns at once.
  Status launch(GridKind kind, std::span<const Arguments> arguments, LaunchShape shape) const;
  /// Waits for everything launched.
  Status synchronize() const;

 private:
  std::vector<cuda::DeviceInfo> devices_;
  std::vector<uint32_t> home_;  // [num_ranks], never decreasing
  std::vector<cuda::Stream> streams_;
  std::vector<cuda::DeviceMemory> memory_;
  std::vector<std::byte*> bases_;
};

}  // namespace megamoe::sm90
