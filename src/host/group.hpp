#pragma once

// What a group gives its layers: memory that all ranks see, agreement before anything runs, and threads.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "flow/dims.hpp"
#include "host/memory.hpp"
#include "host/team.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// What a workspace is for. Layers for which all of it is equal can use one in turn.
struct WorkspaceUse {
  Backend backend{};
  flow::Dims dims;
  uint32_t num_workers = 0;  ///< per rank: barriers count arrivals, so their number is part of the workspace's state
};

class GroupState {
 public:
  virtual ~GroupState() = default;

  uint32_t num_ranks = 1;
  uint32_t num_local_ranks = 1;
  uint32_t first_local_rank = 0;

  /// A zeroed workspace of `num_bytes` in the host memory of every rank. Collective.
  virtual Result<std::unique_ptr<SymmetricMemory>> allocate(uint64_t num_bytes) = 0;
  /// The first failing rank's status on every rank, or ok. Collective.
  virtual Status agree(const Status& mine) = 0;
  /// Every rank's numbers, [num_ranks][numbers.size()], rank by rank. Collective; every rank passes as many.
  virtual std::vector<uint64_t> all_gather(std::span<const uint64_t> numbers) = 0;

  Team& team() { return team_; }
  /// Held for the length of a call: calls of one group's layers run one after the other.
  std::mutex& run_mutex() { return run_mutex_; }

  /// After a fault the group's flags are in no known state: every later call returns this.
  Status failure;

  /// The workspace for `use`, made by `make` where there is none yet: layers of one shape, as a model has, share one.
  /// Collective.
  Result<std::shared_ptr<SymmetricMemory>> workspace(
      const WorkspaceUse& use, const std::function<Result<std::unique_ptr<SymmetricMemory>>()>& make);

 private:
  struct Shared {
    WorkspaceUse use;
    std::weak_ptr<SymmetricMemory> memory;
  };
  Team team_;
  std::mutex run_mutex_;
  std::vector<Shared> workspaces_;
};

/// All ranks in this process.
std::shared_ptr<GroupState> make_thread_group(uint32_t num_ranks);
/// One rank per MPI process. Errors: unsupported.
Result<std::shared_ptr<GroupState>> make_mpi_group();

/// Ranks of the largest group that shares one host's memory.
inline constexpr uint32_t kMaxRanks = 64;

}  // namespace megamoe::internal
