#pragma once

// A kernel that does nothing but read.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace megamoe {

/// Queues the read of `num_bytes`, a multiple of 16, from `data`. `sum` is there so that the reads have a use; it stays
/// unwritten while `data` is zero.
cudaError_t read_all(const void* data, uint64_t num_bytes, uint32_t* sum, uint32_t num_sms, cudaStream_t stream);

}  // namespace megamoe
