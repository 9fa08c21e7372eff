#pragma once

// One rank's inputs and outputs where its kernels can use them: in place if they lie in its GPU's memory, else copies.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "cuda/host/runtime.hpp"
#include "cuda/sm90/arguments.hpp"
#include "host/sm90_staging.hpp"
#include "host/validate.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

class RankIo {
 public:
  /// Buffers for the largest call that `dims` allow, on GPU `ordinal`. Errors: out_of_memory.
  static Result<RankIo> create(int ordinal, const flow::Dims& dims, uint32_t num_routed);

  /// LayerBackend::readable_ids: ids in GPU memory are copied to the host.
  Result<RouterIds> readable_ids(const RankInput& input);

  /// Sets the call's part of `arguments`, and queues copies of what must be copied on `stream`. REQUIRES inputs that
  /// validate_io() accepted.
  Status stage_in(const RankInput& input, const RankOutput& output, cudaStream_t stream, sm90::Arguments& arguments);

  /// Queues, behind the kernels, copies of outputs to where the caller wants them, and of what the host reads
  /// afterwards: rows per expert and the fault record of the rank's `workspace`.
  Status stage_out(const RankOutput& output, const std::byte* workspace, cudaStream_t stream,
                   const sm90::Arguments& arguments);

  // What the host reads once `stream` is through.
  std::span<const uint32_t> local_expert_rows() const;  // [routed experts of the rank]
  const flow::FaultRecord& fault() const { return *reinterpret_cast<const flow::FaultRecord*>(mailbox(fault_offset_)); }

 private:
  /// `data` if kernels of this GPU can use it as it is; else a copy at `offset` of the staging memory, queued on
  /// `stream`.
  template <class T>
  Result<const void*> usable(std::span<const T> data, uint64_t offset, cudaStream_t stream) const;
  template <class T>
  Status stage_scales(const std::span<const T>& scales, cudaStream_t stream, sm90::Arguments& arguments) const;
  std::byte* mailbox(uint64_t offset) const { return mailbox_.data() + offset; }

  int ordinal_ = 0;
  uint32_t num_routed_ = 0;
  Sm90Staging staging_;
  cuda::DeviceMemory device_;
  cuda::PinnedMemory mailbox_;  // copies for the host: [ids of the largest call][rows per routed expert][fault record]
  uint64_t rows_offset_ = 0;
  uint64_t fault_offset_ = 0;
};

}  // namespace megamoe::internal
