#pragma once

// Bringing results of several MPI processes together. With all ranks in one process there is nothing to bring.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

/// True where this build can run `--group mpi`.
bool has_mpi();

/// Every process's `mine`, in rank order, on the process of rank 0; empty on the others. Collective.
/// Errors: internal (MPI refused), invalid_argument (more than MPI can count).
Result<std::vector<std::byte>> gather_bytes(const Group& group, std::span<const std::byte> mine);

/// gather_bytes of plain values.
template <class T>
Result<std::vector<T>> gather(const Group& group, std::span<const T> mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  Result<std::vector<std::byte>> bytes = gather_bytes(group, std::as_bytes(mine));
  if (!bytes) return bytes.status();
  std::vector<T> values(bytes->size() / sizeof(T));
  std::copy(bytes->begin(), bytes->end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

/// Whether this process prints: the one that holds rank 0.
inline bool is_first_process(const Group& group) { return group.first_local_rank() == 0; }

}  // namespace megamoe::cli
