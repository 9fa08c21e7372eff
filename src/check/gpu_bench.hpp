#pragma once

// What a benchmark on GPUs needs besides the layer: cold caches, and the ceiling of reads.

#include <memory>

#include "megamoe/status.hpp"

namespace megamoe {

/// Memory on every visible Hopper GPU, large enough that writing it leaves nothing else in L2.
class GpuCaches {
 public:
  /// Errors: unsupported, saying what is missing; out_of_memory.
  static Result<GpuCaches> create();
  GpuCaches(GpuCaches&&) noexcept;
  GpuCaches& operator=(GpuCaches&&) noexcept;
  ~GpuCaches();

  /// Returns when every GPU has written its memory.
  Status flush();

 private:
  struct Buffers;
  explicit GpuCaches(std::unique_ptr<Buffers> buffers);
  std::unique_ptr<Buffers> buffers_;
};

/// GB/s (1e9 bytes) that the first Hopper GPU reads of a buffer much larger than its L2; best of several passes.
/// Errors: unsupported, saying what is missing; out_of_memory.
Result<double> measure_gpu_read_gbytes_per_s();

}  // namespace megamoe
