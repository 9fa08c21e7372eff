#include "bench_ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "check/ceilings.hpp"
#include "check/gpu_ceiling.hpp"
#include "cpus.hpp"
#include "host/errors.hpp"

namespace megamoe::cli {
namespace {

Result<Ceilings> measure_gpu_ceilings(const std::string& cublaslt) {
  Ceilings ceilings;
  const Result<Fp8Ceiling> fp8 = measure_gpu_fp8_tflops(cublaslt);
  if (fp8) {
    ceilings.gflops = fp8->tflops * 1e3;
    ceilings.arithmetic = fmt::format("FP8 products by {}, promoted to FP32", fp8->library);
  } else if (cublaslt.empty()) {
    ceilings.no_gflops = fp8.status().message();
  } else {
    return fp8.status();
  }
  const Result<double> gbytes = measure_gpu_read_gbytes_per_s();
  MM_RETURN_IF_ERROR(gbytes.status());
  ceilings.read_gbytes_per_s = *gbytes;
  return ceilings;
}

Result<Ceilings> measure_cpu_ceilings(const PlanInfo& plan) {
  // More threads than may run at once would only take turns.
  const uint32_t num_threads = std::min(plan.num_ranks * plan.threads_per_rank, read_cpus().num_default_threads());
  const Result<double> gflops = measure_compute_gflops(plan.isa, num_threads);
  MM_RETURN_IF_ERROR(gflops.status());
  const Result<double> gbytes = measure_read_gbytes_per_s(num_threads);
  MM_RETURN_IF_ERROR(gbytes.status());
  return Ceilings{.gflops = *gflops,
                  .arithmetic = std::string(compute_kind(plan.isa)),
                  .no_gflops = {},
                  .read_gbytes_per_s = *gbytes};
}

}  // namespace

Result<Ceilings> measure_ceilings(const PlanInfo& plan, const std::string& cublaslt) {
  return plan.backend == Backend::cpu ? measure_cpu_ceilings(plan) : measure_gpu_ceilings(cublaslt);
}

std::string ceilings_text(const Ceilings& ceilings) {
  const std::string read = fmt::format("{:.1f} GB/s read", ceilings.read_gbytes_per_s);
  if (!ceilings.gflops) return fmt::format("{}; no cuBLASLt ceiling: {}", read, ceilings.no_gflops);
  const bool is_large = *ceilings.gflops >= 1e4;
  return fmt::format("{:.1f} {} ({}), {}", is_large ? *ceilings.gflops * 1e-3 : *ceilings.gflops,
                     is_large ? "TFLOP/s" : "GFLOP/s", ceilings.arithmetic, read);
}

Json ceilings_json(const Ceilings& ceilings) {
  return {{"gflops", ceilings.gflops ? Json(*ceilings.gflops) : Json()},
          {"arithmetic", ceilings.gflops ? Json(ceilings.arithmetic) : Json()},
          {"no_gflops", ceilings.gflops ? Json() : Json(ceilings.no_gflops)},
          {"read_gbytes_per_s", ceilings.read_gbytes_per_s}};
}

}  // namespace megamoe::cli
