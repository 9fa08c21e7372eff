// Where MegaMoE was built without nvcc.

#include "check/stages/device_machine.hpp"
#include "check/stages/stage_bench.hpp"
#include "host/errors.hpp"

namespace megamoe::stages {
namespace {

Status built_without_kernels() {
  return error(StatusCode::unsupported, "the Hopper kernels must have been built", "a build without nvcc",
               "build where nvcc is found, or use the cpu backend");
}

}  // namespace

Result<std::unique_ptr<StageMachine>> make_device_machine(const StageCase&) { return built_without_kernels(); }

Result<StageBenchResult> bench_stage(const StageBenchSpec&) { return built_without_kernels(); }

}  // namespace megamoe::stages
