// The flow rules in a kernel. Without a device: exit status 77, "skipped"; that this file compiles is a test of its
// own. With one: prints the device's digests as host_digest does, and compares them with the host's.

#include <cstdio>

#include "flow_digest.hpp"
#include "num_digests.hpp"

namespace {

using megamoe::flow_nvcc::flow_digest;
using megamoe::flow_nvcc::kNumDigests;

constexpr int kSkip = 77;

__global__ void digest_kernel(uint64_t* digests /* [kNumDigests] */) {
  const uint32_t seed = blockIdx.x * blockDim.x + threadIdx.x;
  if (seed < kNumDigests) digests[seed] = flow_digest(seed);
}

int fail(cudaError_t error) {
  std::fprintf(stderr, "device_digest: %s\n", cudaGetErrorString(error));
  return 1;
}

}  // namespace

int main() {
  int num_devices = 0;
  if (cudaGetDeviceCount(&num_devices) != cudaSuccess || num_devices == 0) return kSkip;
  int major = 0;
  if (const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0))
    return fail(error);
  if (major != 9) return kSkip;  // sm_90a code runs on no other architecture

  uint64_t* digests = nullptr;
  if (const cudaError_t error = cudaMallocManaged(&digests, kNumDigests * sizeof(uint64_t))) return fail(error);
  digest_kernel<<<(kNumDigests + 31) / 32, 32>>>(digests);
  if (const cudaError_t error = cudaDeviceSynchronize()) return fail(error);

  uint32_t num_different = 0;
  for (uint32_t seed = 0; seed < kNumDigests; ++seed) {
    std::printf("%016llx\n", static_cast<unsigned long long>(digests[seed]));
    num_different += digests[seed] != flow_digest(seed) ? 1U : 0U;
  }
  cudaFree(digests);
  std::fprintf(stderr, "%u of %u digests differ between host and device\n", num_different, kNumDigests);
  return num_different == 0 ? 0 : 1;
}
