// The group whose ranks are MPI processes of one host over one shared window.

#include <fmt/format.h>
#include <mpi.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "host/errors.hpp"
#include "host/group.hpp"

namespace megamoe::internal {
namespace {

/// Set once a rank gave up on another: collectives could then wait for a dead process, so none is called any more.
bool g_peers_lost = false;

/// Initialises MPI if nobody has, and then also finalises it when the process ends well.
void initialise_mpi() {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  if (is_initialised != 0) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  std::atexit([] {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    if (is_finalised == 0 && !g_peers_lost) MPI_Finalize();
  });
}

Status no_room(uint64_t num_bytes, uint32_t num_ranks) {
  return error(StatusCode::out_of_memory, "the ranks' workspaces must fit the shared memory of the host",
               fmt::format("{} bytes for each of {} ranks", num_bytes, num_ranks),
               "lower max_tokens_per_rank, or enlarge /dev/shm");
}

/// Asked before MPI is: when one rank cannot make the window's file, Open MPI leaves the others waiting for it.
Status check_room(uint64_t num_bytes, uint32_t num_ranks) {
  uint64_t room = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) room = std::min(room, uint64_t{shared.f_bavail} * shared.f_frsize);
  return num_bytes <= room / num_ranks ? Status() : no_room(num_bytes, num_ranks);
}

class MpiMemory final : public SymmetricMemory {
 public:
  explicit MpiMemory(const GroupState& group) : group_(group) {}
  ~MpiMemory() override {
    // Freeing is collective: after a fault the window is left to the end of the process.
    if (window_ != MPI_WIN_NULL && group_.failure.ok()) MPI_Win_free(&window_);
  }

  /// One window over all ranks of `host`, which returns its errors; this rank's part is zeroed. Collective.
  Status allocate(MPI_Comm host, uint64_t num_bytes) {
    void* own = nullptr;
    const int code = MPI_Win_allocate_shared(static_cast<MPI_Aint>(num_bytes), 1, MPI_INFO_NULL, host, &own, &window_);
    if (code != MPI_SUCCESS || own == nullptr) {
      return no_room(num_bytes, group_.num_ranks);
    }
    allocated_bytes_ = num_bytes;
    for (uint32_t r = 0; r < group_.num_ranks; ++r) {
      MPI_Aint bytes = 0;
      int unit = 0;
      void* base = nullptr;
      MPI_Win_shared_query(window_, static_cast<int>(r), &bytes, &unit, &base);
      bases_.push_back(static_cast<std::byte*>(base));
    }
    std::memset(own, 0, num_bytes);
    return {};
  }

 private:
  const GroupState& group_;
  MPI_Win window_ = MPI_WIN_NULL;
};

class MpiGroup final : public GroupState {
 public:
  /// REQUIRES `host` spans all ranks. Takes ownership of it.
  explicit MpiGroup(MPI_Comm host) : host_(host) {
    int size = 0;
    int rank = 0;
    MPI_Comm_size(host_, &size);
    MPI_Comm_rank(host_, &rank);
    num_ranks = static_cast<uint32_t>(size);
    num_local_ranks = 1;
    first_local_rank = static_cast<uint32_t>(rank);
  }
  ~MpiGroup() override {
    if (failure.ok()) {
      MPI_Comm_free(&host_);
    } else {
      g_peers_lost = true;
    }
  }

  Result<std::unique_ptr<SymmetricMemory>> allocate(uint64_t num_bytes) override {
    MPI_Comm_set_errhandler(host_, MPI_ERRORS_RETURN);
    MM_RETURN_IF_ERROR(agree(check_room(num_bytes, num_ranks)));
    auto memory = std::make_unique<MpiMemory>(*this);
    // Behind this every rank's part is zeroed, or no rank goes on.
    MM_RETURN_IF_ERROR(agree(memory->allocate(host_, num_bytes)));
    return std::unique_ptr<SymmetricMemory>(std::move(memory));
  }

  Status agree(const Status& mine) override {
    const auto code = static_cast<uint64_t>(mine.code());
    const std::vector<uint64_t> codes = all_gather({&code, 1});
    for (uint32_t r = 0; r < num_ranks; ++r) {
      if (codes[r] == 0) continue;
      std::array<char, 1024> text{};
      if (r == first_local_rank) std::strncpy(text.data(), mine.message().c_str(), text.size() - 1);
      MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, static_cast<int>(r), host_);
      const std::string where = r == first_local_rank ? "" : fmt::format("rank {}: ", r);
      return {static_cast<StatusCode>(codes[r]), where + text.data()};
    }
    return {};
  }

  std::vector<uint64_t> all_gather(std::span<const uint64_t> numbers) override {
    std::vector<uint64_t> all(numbers.size() * num_ranks);
    const auto count = static_cast<int>(numbers.size());
    MPI_Allgather(numbers.data(), count, MPI_UINT64_T, all.data(), count, MPI_UINT64_T, host_);
    return all;
  }

 private:
  MPI_Comm host_;
};

}  // namespace

Result<std::shared_ptr<GroupState>> make_mpi_group() {
  initialise_mpi();
  int world_size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (world_size > static_cast<int>(kMaxRanks)) {
    return invalid_argument(fmt::format("an MPI group must have at most {} processes", kMaxRanks), world_size,
                            "start fewer with mpirun -n");
  }
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int host_size = 0;
  MPI_Comm_size(host, &host_size);
  // Every rank must come to the same verdict, whatever its own host holds.
  int smallest = 0;
  MPI_Allreduce(&host_size, &smallest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (smallest != world_size) {
    MPI_Comm_free(&host);
    return error(StatusCode::unsupported, "all processes of an MPI group must run on one host",
                 fmt::format("a host with {} of {} processes", smallest, world_size),
                 "start them on one host (mpirun --host HOST:N)");
  }
  return std::shared_ptr<GroupState>(std::make_shared<MpiGroup>(host));
}

}  // namespace megamoe::internal
