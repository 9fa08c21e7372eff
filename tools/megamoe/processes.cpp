#include "processes.hpp"

#if MM_HAVE_MPI
#include <mpi.h>
#endif

#include <climits>
#include <numeric>

#include "host/errors.hpp"

namespace megamoe::cli {

#if MM_HAVE_MPI

bool has_mpi() { return true; }

namespace {

Status check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return {};
  return error(StatusCode::internal, fmt::format("{} must succeed", call), code, "look at MPI's own messages");
}

}  // namespace

Result<std::vector<std::byte>> gather_bytes(const Group& group, std::span<const std::byte> mine) {
  if (group.num_local_ranks() == group.num_ranks()) return std::vector<std::byte>(mine.begin(), mine.end());
  const uint64_t num_mine = mine.size();
  std::vector<uint64_t> sizes(group.num_ranks());
  MM_RETURN_IF_ERROR(check_mpi(MPI_Allgather(&num_mine, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD),
                               "MPI_Allgather"));
  const uint64_t num_all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (num_all > INT_MAX) {
    return invalid_argument(fmt::format("results gathered by MPI must be at most {} bytes", INT_MAX), num_all,
                            "run fewer tokens at a time");
  }
  const std::vector<int> counts(sizes.begin(), sizes.end());
  std::vector<int> offsets(sizes.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  std::vector<std::byte> all(is_first_process(group) ? num_all : 0);
  MM_RETURN_IF_ERROR(check_mpi(MPI_Gatherv(mine.data(), static_cast<int>(num_mine), MPI_BYTE, all.data(), counts.data(),
                                           offsets.data(), MPI_BYTE, 0, MPI_COMM_WORLD),
                               "MPI_Gatherv"));
  return all;
}

#else

bool has_mpi() { return false; }

// Without MPI every group lives in this process.
Result<std::vector<std::byte>> gather_bytes(const Group&, std::span<const std::byte> mine) {
  return std::vector<std::byte>(mine.begin(), mine.end());
}

#endif

}  // namespace megamoe::cli
