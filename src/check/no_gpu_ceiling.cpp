// Where MegaMoE was built without nvcc.

#include "check/gpu_ceiling.hpp"
#include "check/gpu_state.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

Status no_cuda() {
  return error(StatusCode::unsupported, "the Hopper kernels must have been built", "a build without nvcc",
               "build where nvcc is found, or use the cpu backend");
}

}  // namespace

Result<double> measure_gpu_read_gbytes_per_s() { return no_cuda(); }
Result<Fp8Ceiling> measure_gpu_fp8_tflops(const std::string& /*library_path*/) { return no_cuda(); }
Result<GpuState> read_gpu_state() { return no_cuda(); }

}  // namespace megamoe
