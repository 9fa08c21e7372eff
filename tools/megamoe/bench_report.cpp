#include "bench_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan_report.hpp"

namespace megamoe::cli {
namespace {

/// Ceilings are those of one GPU, or of the whole CPU.
double num_devices(const BenchResult& result) { return std::max(1U, result.num_gpus); }

/// GFLOP/s over the ceiling, where there is one.
std::optional<double> fraction_of_compute(const BenchResult& result) {
  if (!result.ceilings.gflops) return std::nullopt;
  return result.gflops() / (num_devices(result) * *result.ceilings.gflops);
}

double fraction_of_read(const BenchResult& result) {
  return result.gbytes_per_s() / (num_devices(result) * result.ceilings.read_gbytes_per_s);
}

std::string percent_text(std::optional<double> fraction) {
  return fraction ? fmt::format("{:.1f} %", 100 * *fraction) : "-";
}

Json stages_json(const BenchResult& result) {
  Json stages = Json::object();
  for (size_t i = 0; i < kNumStages; ++i) {
    if (result.stage_seconds[i] > 0) {
      stages[std::string(to_string(static_cast<Stage>(i)))] = result.stage_seconds[i] * 1e6;
    }
  }
  return stages;
}

Json result_json(const BenchRequest& request, const BenchResult& result) {
  const Ceilings& ceilings = result.ceilings;
  const std::optional<double> of_compute = fraction_of_compute(result);
  const bool has_links = result.num_gpus > 1;
  return {{"backend", to_string(result.plan.backend)},
          {"fusion", to_string(result.plan.fusion)},
          {"strategy", to_string(result.strategy)},
          {"shape", result.name},
          {"format", to_string(result.format)},
          {"tokens", result.tokens_per_rank},
          {"ranks", result.plan.num_ranks},
          {"threads", result.num_threads()},
          {"median_us", result.median_seconds() * 1e6},
          {"min_us", result.call_seconds.front() * 1e6},
          {"max_us", result.call_seconds.back() * 1e6},
          {"flops", result.flops()},
          {"weight_bytes", result.weight_bytes},
          {"row_bytes", result.traffic.row_bytes},
          {"moved_bytes", result.moved_bytes()},
          {"gflops", result.gflops()},
          {"gbytes_per_s", result.gbytes_per_s()},
          {"link_bytes", has_links ? Json(result.traffic.link_bytes) : Json()},
          {"link_gbytes_per_s", has_links ? Json(result.link_gbytes_per_s()) : Json()},
          {"stage_us", stages_json(result)},
          {"overlap", result.overlap > 0 ? Json(result.overlap) : Json()},
          {"ceiling_gflops", ceilings.gflops ? Json(*ceilings.gflops) : Json()},
          {"ceiling_arithmetic", ceilings.gflops ? Json(ceilings.arithmetic) : Json()},
          {"ceiling_gflops_missing", ceilings.gflops ? Json() : Json(ceilings.no_gflops)},
          {"ceiling_read_gbytes_per_s", ceilings.read_gbytes_per_s},
          {"fraction_of_compute", of_compute ? Json(*of_compute) : Json()},
          {"fraction_of_read", fraction_of_read(result)},
          {"one_rank_of", request.one_rank_of == 0 ? Json() : Json(request.one_rank_of)},
          {"routing", request.routing.name},
          {"rows", result.num_rows},
          {"active_experts", result.num_active_experts},
          {"calls", result.call_seconds.size()},
          {"sm_clock_mhz", result.sm_mhz ? Json(*result.sm_mhz) : Json()},
          {"version", version()},
          {"plan", plan_json(result.plan)}};
}

std::string heading(const BenchRequest& request, const BenchResult& first) {
  return fmt::format("{}{}: backend {}, {} ranks with {} each, routing {}\nceilings: {}\n", first.name,
                     request.one_rank_of == 0 ? "" : fmt::format(", one rank of {}", request.one_rank_of),
                     backend_text(first.plan), first.plan.num_ranks, workers_text(first.plan), request.routing.name,
                     ceilings_text(first.ceilings));
}

Table cpu_table(const std::vector<BenchResult>& results) {
  Table table({"format", "tokens/rank", "median", "min", "max", "GFLOP/s", "of compute", "GB/s", "of read"});
  for (const BenchResult& result : results) {
    table.add({std::string(to_string(result.format)), fmt::format("{}", result.tokens_per_rank),
               format_seconds(result.median_seconds()), format_seconds(result.call_seconds.front()),
               format_seconds(result.call_seconds.back()), fmt::format("{:.2f}", result.gflops()),
               percent_text(fraction_of_compute(result)), fmt::format("{:.2f}", result.gbytes_per_s()),
               percent_text(fraction_of_read(result))});
  }
  return table;
}

/// Three digits: "4.24 GB", "805 MB", "12.3 MB".
std::string moved_text(uint64_t bytes) {
  const double megabytes = static_cast<double>(bytes) * 1e-6;
  if (megabytes >= 1e3) return fmt::format("{:.2f} GB", megabytes * 1e-3);
  return fmt::format("{:.{}f} MB", megabytes, megabytes < 100 ? 1 : 0);
}

double spread(const BenchResult& result) {
  return (result.call_seconds.back() - result.call_seconds.front()) / result.median_seconds();
}

Table gpu_table(const std::vector<BenchResult>& results) {
  Table table({"format", "tokens", "median", "spread", "moved", "TFLOP/s", "of FP8", "GB/s", "of read", "link GB/s",
               "overlap", "strategy"});
  const bool has_links = results.front().num_gpus > 1;
  for (const BenchResult& result : results) {
    table.add({std::string(to_string(result.format)), fmt::format("{}", result.tokens_per_rank),
               format_seconds(result.median_seconds()), percent_text(spread(result)), moved_text(result.moved_bytes()),
               fmt::format("{:.1f}", result.gflops() * 1e-3), percent_text(fraction_of_compute(result)),
               fmt::format("{:.0f}", result.gbytes_per_s()), percent_text(fraction_of_read(result)),
               has_links ? fmt::format("{:.1f}", result.link_gbytes_per_s()) : "-",
               result.overlap > 0 ? fmt::format("{:.2f}", result.overlap) : "-",
               std::string(to_string(result.strategy))});
  }
  return table;
}

}  // namespace

std::string results_text(const BenchRequest& request, const std::vector<BenchResult>& results) {
  const BenchResult& first = results.front();
  const Table table = first.plan.backend == Backend::cpu ? cpu_table(results) : gpu_table(results);
  return heading(request, first) + table.to_text();
}

Json results_json(const BenchRequest& request, const std::vector<BenchResult>& results) {
  Json list = Json::array();
  for (const BenchResult& result : results) list.push_back(result_json(request, result));
  return list;
}

}  // namespace megamoe::cli
