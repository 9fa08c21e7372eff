#pragma once

// Memory that the plan asks for: whole pages, zeroed, returned when the owner goes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::internal {

/// Returns a mapping of `num_bytes`.
struct Unmap {
  uint64_t num_bytes = 0;
  void operator()(std::byte* data) const;
};

/// An anonymous mapping of this process. Pages cost memory only once they are touched.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  /// Errors: out_of_memory.
  static Result<PrivateMemory> allocate(uint64_t num_bytes);

  std::byte* data() const { return data_.get(); }
  uint64_t num_bytes() const { return data_.get_deleter().num_bytes; }

 private:
  std::unique_ptr<std::byte, Unmap> data_;
};

/// One workspace per rank, as this process addresses them.
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  /// Base address of every rank's workspace, [num_ranks].
  const std::vector<std::byte*>& bases() const { return bases_; }
  /// Bytes that this process asked for.
  uint64_t allocated_bytes() const { return allocated_bytes_; }

  /// Cross-rank barriers passed on it so far, the same on all ranks between calls.
  uint64_t num_barriers = 0;

 protected:
  SymmetricMemory() = default;
  std::vector<std::byte*> bases_;
  uint64_t allocated_bytes_ = 0;
};

}  // namespace megamoe::internal
