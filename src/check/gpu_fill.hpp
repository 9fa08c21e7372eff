#pragma once

// Random e4m3 values made on the GPU.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace megamoe {

/// Queues the write of `num_codes` e4m3 codes, a multiple of 4, to `codes`: roughly normally distributed with mean 0
/// and standard deviation 111, as weights are once a block's largest of 16,384 has been scaled to 448. No NaN. The same
/// seed gives the same codes.
cudaError_t fill_normal_e4m3(uint8_t* codes, uint64_t num_codes, uint64_t seed, cudaStream_t stream);

}  // namespace megamoe
