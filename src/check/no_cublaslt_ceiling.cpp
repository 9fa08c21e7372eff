// Where the CUDA toolkit that MegaMoE was built with came without cuBLAS.

#include "check/gpu_ceiling.hpp"
#include "host/errors.hpp"

namespace megamoe {

Result<Fp8Ceiling> measure_gpu_fp8_tflops(const std::string& /*library_path*/) {
  return error(StatusCode::unsupported, "MegaMoE must have been built with cublasLt.h", "a toolkit without it",
               "install cuBLAS's development files and build again");
}

}  // namespace megamoe
