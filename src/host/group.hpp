#pragma once

// What a group gives its layers: memory that all ranks see, agreement before anything runs, and threads.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "flow/dims.hpp"
#include "host/memory.hpp"
#include "host/team.hpp"
#include "megamoe/status.hpp"

namespace megamoe::internal {

class GroupState {
 public:
  virtual ~GroupState() = default;

  uint32_t num_ranks = 1;
  uint32_t num_local_ranks = 1;
  uint32_t first_local_rank = 0;

  /// A zeroed workspace of `num_bytes` on every rank. Collective.
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

  /// The workspace for layers of these dims and workers per rank: layers of one shape, as a model has, share one.
  /// Collective.
  Result<std::shared_ptr<SymmetricMemory>> workspace(const flow::Dims& dims, uint32_t num_workers, uint64_t num_bytes);

 private:
  struct Shared {
    flow::Dims dims;
    uint32_t num_workers = 0;  // barriers count arrivals, so their number is part of the workspace's state
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
