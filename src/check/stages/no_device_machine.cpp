// Where MegaMoE was built without nvcc.

#include "check/stages/device_machine.hpp"
#include "host/errors.hpp"

namespace megamoe::stages {

Result<std::unique_ptr<StageMachine>> make_device_machine(const StageCase&) {
  return error(StatusCode::unsupported, "the Hopper kernels must have been built", "a build without nvcc",
               "build where nvcc is found, or use the cpu backend");
}

}  // namespace megamoe::stages
