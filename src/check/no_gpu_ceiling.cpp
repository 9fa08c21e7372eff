// Where MegaMoE was built without nvcc.

#include "check/gpu_ceiling.hpp"
#include "host/errors.hpp"

namespace megamoe {

Result<double> measure_gpu_read_gbytes_per_s() {
  return error(StatusCode::unsupported, "the Hopper kernels must have been built", "a build without nvcc",
               "build where nvcc is found, or use the cpu backend");
}

}  // namespace megamoe
