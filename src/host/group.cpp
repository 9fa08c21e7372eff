#include "host/group.hpp"

#include <fmt/format.h>

#include <cstring>

#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {
namespace internal {

namespace {

bool is_same(const WorkspaceUse& a, const WorkspaceUse& b) {
  static_assert(std::has_unique_object_representations_v<flow::Dims>);
  return a.backend == b.backend && a.num_workers == b.num_workers && std::memcmp(&a.dims, &b.dims, sizeof(a.dims)) == 0;
}

class ThreadMemory final : public SymmetricMemory {
 public:
  explicit ThreadMemory(std::vector<PrivateMemory> ranks) : ranks_(std::move(ranks)) {
    for (const PrivateMemory& rank : ranks_) {
      bases_.push_back(rank.data());
      allocated_bytes_ += rank.num_bytes();
    }
  }

 private:
  std::vector<PrivateMemory> ranks_;
};

class ThreadGroup final : public GroupState {
 public:
  explicit ThreadGroup(uint32_t ranks) {
    num_ranks = ranks;
    num_local_ranks = ranks;
  }

  Result<std::unique_ptr<SymmetricMemory>> allocate(uint64_t num_bytes) override {
    std::vector<PrivateMemory> memories;
    for (uint32_t r = 0; r < num_ranks; ++r) {
      auto memory = PrivateMemory::allocate(num_bytes);
      if (!memory) return memory.status();
      memories.push_back(*std::move(memory));
    }
    return std::unique_ptr<SymmetricMemory>(std::make_unique<ThreadMemory>(std::move(memories)));
  }

  Status agree(const Status& mine) override { return mine; }

  std::vector<uint64_t> all_gather(std::span<const uint64_t> numbers) override {
    std::vector<uint64_t> all;
    for (uint32_t r = 0; r < num_ranks; ++r) all.insert(all.end(), numbers.begin(), numbers.end());
    return all;
  }
};

}  // namespace

Result<std::shared_ptr<SymmetricMemory>> GroupState::workspace(
    const WorkspaceUse& use, const std::function<Result<std::unique_ptr<SymmetricMemory>>()>& make) {
  std::erase_if(workspaces_, [](const Shared& shared) { return shared.memory.expired(); });
  for (const Shared& shared : workspaces_) {
    if (auto memory = shared.memory.lock(); memory && is_same(shared.use, use)) return memory;
  }
  auto fresh = make();
  MM_RETURN_IF_ERROR(fresh.status());
  std::shared_ptr<SymmetricMemory> memory = *std::move(fresh);
  workspaces_.push_back({use, memory});
  return memory;
}

std::shared_ptr<GroupState> make_thread_group(uint32_t num_ranks) { return std::make_shared<ThreadGroup>(num_ranks); }

}  // namespace internal

Result<Group> Group::threads(uint32_t num_ranks) {
  if (num_ranks < 1 || num_ranks > internal::kMaxRanks) {
    return invalid_argument(fmt::format("num_ranks must be in 1..{}", internal::kMaxRanks), num_ranks,
                            "ask for fewer ranks");
  }
  return Group(internal::make_thread_group(num_ranks));
}

Result<Group> Group::mpi() {
  auto state = internal::make_mpi_group();
  if (!state) return state.status();
  return Group(*std::move(state));
}

uint32_t Group::num_ranks() const { return state_->num_ranks; }
uint32_t Group::num_local_ranks() const { return state_->num_local_ranks; }
uint32_t Group::first_local_rank() const { return state_->first_local_rank; }

}  // namespace megamoe
