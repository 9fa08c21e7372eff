#pragma once

// Timing one layer with synthetic weights and tokens, against the two ceilings of this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  NamedShape shape;
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
};

/// One measurement.
struct BenchResult {
  LayerShape shape;  ///< as run: with one_rank_of, the experts of one rank
  WeightFormat format = WeightFormat::fp8_block;
  PlanInfo plan;
  uint32_t tokens_per_rank = 0;
  uint64_t num_rows = 0;                 ///< rows that experts received, over all ranks
  uint32_t num_active_experts = 0;       ///< experts that received any
  uint64_t weight_bytes = 0;             ///< values and scales of the active experts, as stored
  std::vector<double> call_seconds;      ///< sorted
  std::optional<double> ceiling_gflops;  ///< none where it is not measured: on GPUs
  double ceiling_read_gbytes_per_s = 0;

  uint32_t num_threads() const { return plan.num_ranks * plan.threads_per_rank; }
  double median_seconds() const { return median(call_seconds); }
  /// 2 * rows * 3 * hidden * intermediate.
  double flops() const { return 6.0 * static_cast<double>(num_rows) * shape.hidden * shape.intermediate; }
  double gflops() const { return flops() / median_seconds() * 1e-9; }
  double gbytes_per_s() const { return static_cast<double>(weight_bytes) / median_seconds() * 1e-9; }
};

/// Measures every format with every number of tokens. Errors: whatever validation refuses; weights that do not fit into
/// memory.
Result<std::vector<BenchResult>> bench_layer(const BenchRequest& request);

}  // namespace megamoe::cli
