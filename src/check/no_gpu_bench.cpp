// Where MegaMoE was built without nvcc.

#include "check/gpu_bench.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

Status built_without_kernels() {
  return error(StatusCode::unsupported, "the Hopper kernels must have been built", "a build without nvcc",
               "build where nvcc is found, or use the cpu backend");
}

}  // namespace

struct GpuCaches::Buffers {};

GpuCaches::GpuCaches(std::unique_ptr<Buffers> buffers) : buffers_(std::move(buffers)) {}
GpuCaches::GpuCaches(GpuCaches&&) noexcept = default;
GpuCaches& GpuCaches::operator=(GpuCaches&&) noexcept = default;
GpuCaches::~GpuCaches() = default;

Result<GpuCaches> GpuCaches::create() { return built_without_kernels(); }
Status GpuCaches::flush() { return built_without_kernels(); }

Result<double> measure_gpu_read_gbytes_per_s() { return built_without_kernels(); }

}  // namespace megamoe
