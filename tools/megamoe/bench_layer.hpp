#pragma once

// Timing layers with synthetic weights and tokens, against the two ceilings of this machine.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench_ceilings.hpp"
#include "bench_traffic.hpp"
#include "check/shapes.hpp"
#include "check/synthetic.hpp"
#include "console.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

/// Which experts tokens choose, and the text that said so.
struct BenchRouting {
  RoutingSpec spec;
  uint32_t file_top_k = 0;  ///< ids per token in a routing file; 0 = not from a file
  std::string name = "uniform";
};

struct BenchRequest {
  std::vector<NamedShape> shapes;
  std::vector<uint32_t> tokens{1, 16, 256};  ///< per rank; each is measured on its own
  std::vector<WeightFormat> formats{WeightFormat::fp8_block};
  uint32_t num_ranks = 1;
  uint32_t one_rank_of = 0;  ///< N: play one rank of an N-rank group alone; 0: off
  BenchRouting routing;
  Backend backend = Backend::automatic;
  Tuning tuning;
  uint32_t num_warmup_calls = 2;
  uint32_t num_calls = 5;    ///< at least
  double min_seconds = 0.5;  ///< keep calling at least this long
  std::string cublaslt;      ///< library that tells a GPU's FP8 rate; empty: the system is searched
};

/// One measurement.
struct BenchResult {
  std::string name;  ///< of the shape, as given
  LayerShape shape;  ///< as run: with one_rank_of, the experts of one rank
  WeightFormat format = WeightFormat::fp8_block;
  PlanInfo plan;
  Strategy strategy = Strategy::automatic;  ///< GPU only: that of the last call
  uint32_t tokens_per_rank = 0;
  uint64_t num_rows = 0;                           ///< rows that experts received, over all ranks
  uint32_t num_active_experts = 0;                 ///< experts that received any
  uint64_t weight_bytes = 0;                       ///< values and scales of the active experts, as stored
  uint32_t num_gpus = 0;                           ///< that play the ranks; 0 on the CPU
  Traffic traffic;                                 ///< mean of the batches
  std::vector<double> call_seconds;                ///< sorted
  std::array<double, kNumStages> stage_seconds{};  ///< medians, per worker; on GPUs of the slowest rank
  /// Median of the stages' time per worker, added up, over the time of their call; 0: not timed one by one.
  double overlap = 0;
  std::optional<uint32_t> sm_mhz;  ///< the GPU's clock right after the last call
  Ceilings ceilings;

  uint32_t num_threads() const { return plan.num_ranks * plan.threads_per_rank; }
  double median_seconds() const { return median(call_seconds); }
  /// 2 * rows * 3 * hidden * intermediate.
  double flops() const { return 6.0 * static_cast<double>(num_rows) * shape.hidden * shape.intermediate; }
  uint64_t moved_bytes() const { return weight_bytes + traffic.row_bytes; }
  double gflops() const { return flops() / median_seconds() * 1e-9; }
  double gbytes_per_s() const { return static_cast<double>(weight_bytes) / median_seconds() * 1e-9; }
  double link_gbytes_per_s() const { return static_cast<double>(traffic.link_bytes) / median_seconds() * 1e-9; }
};

/// "v4-flash", or "1024,512,16,4" of a shape without a name.
std::string shape_label(const NamedShape& shape);

/// Ok, if a layer of this shape may be made for this request, as far as can be told without making it.
Status check_shape(const BenchRequest& request, const NamedShape& shape);

/// Measures every format with every number of tokens, and adds to `results` what is done, whatever comes after it.
/// `ceilings` are measured first where there are none. Errors: check_shape()'s; whatever validation refuses; weights
/// that do not fit into memory.
Status bench_layer(const BenchRequest& request, const NamedShape& shape, std::optional<Ceilings>& ceilings,
                   std::vector<BenchResult>& results);

}  // namespace megamoe::cli
