#include "check/gpu_read.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kBlocksPerSm = 4;
/// 16-byte loads that a thread has under way at once.
constexpr uint32_t kLoads = 8;

__global__ void __launch_bounds__(kThreads) read_grid(const uint4* data, uint64_t num_vecs, uint32_t* sum) {
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  uint32_t bits = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < num_vecs; i += stride * kLoads) {
    uint4 vecs[kLoads];
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      const uint64_t vec = i + load * stride;
      vecs[load] = vec < num_vecs ? __ldcs(data + vec) : uint4{};
    }
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      bits |= vecs[load].x | vecs[load].y | vecs[load].z | vecs[load].w;
    }
  }
  if (bits != 0) *sum = bits;
}

}  // namespace

cudaError_t read_all(const void* data, uint64_t num_bytes, uint32_t* sum, uint32_t num_sms, cudaStream_t stream) {
  read_grid<<<num_sms * kBlocksPerSm, kThreads, 0, stream>>>(static_cast<const uint4*>(data), num_bytes / sizeof(uint4),
                                                             sum);
  return cudaGetLastError();
}

}  // namespace megamoe
