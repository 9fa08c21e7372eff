// megamoe bench: how fast a layer is, against what this machine can do.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench_layer.hpp"
#include "bench_stage_report.hpp"
#include "check/ceilings.hpp"
#include "commands.hpp"
#include "host/errors.hpp"
#include "options.hpp"
#include "report.hpp"
#include "routing_file.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Weights and tokens are made from a seed. Each row of the result is one format with one number of tokens:
  median, min, max  wall time of one call of the whole group; on GPUs the time between events around the launches of the
                    slowest rank, L2 flushed before each call
  GFLOP/s           2 * rows * 3 * hidden * intermediate / median; a row is one token at one of its experts
  GB/s              bytes of values and scales, as stored, of the experts that got a row / median
  of compute        GFLOP/s over what all worker threads do at best with the multiply-adds of the instruction set in use
                    (FP32 vectors, BF16 dot products or BF16 tiles), measured in the same run
  of read           GB/s over the rate at which they read memory, measured in the same run; on GPUs one GPU's rate
In JSON, threads counts the workers of all ranks.

--one-rank-of N times one rank of an N-rank group alone: a group of one rank with E/N experts and the same tokens per rank.
Every expert then gets as many rows, and as many weight bytes are read, as on one rank of the real group.

--stage dispatch|combine times one communication stage of the Hopper kernels alone, one rank to a GPU where there are
enough GPUs, with --blocks blocks of --block-threads threads a rank. L2 is flushed and the ranks meet before each call;
times are the slowest rank's. "first to last" runs from the first block's count (combine: push) to the last arrival (last
sum); remote GB/s counts what crosses the link to one GPU over the time of pull (push).

Examples:
  megamoe bench --stage dispatch --shape v4-flash --ranks 2 --tokens 128,1024,8192
  megamoe bench --shape qwen3-30b --tokens 1,16,256 --ranks 2 --format fp8,mxfp4
  megamoe bench --shape v4-flash --one-rank-of 8 --tokens 256 --routing zipf:1.2 --json
  megamoe bench --shape 1024,512,16,4 --tokens 64 --routing file:ids.json)";

struct BenchOptions {
  BenchRequest request;
  std::optional<stages::TimedStage> stage;  ///< of the layer, alone; none: all of it
  stages::StageBenchSpec stage_spec;
  OutputForm form = OutputForm::text;
};

Result<BenchRouting> parse_bench_routing(std::string_view text) {
  constexpr std::string_view kFile = "file:";
  if (text.starts_with(kFile)) {
    Result<RoutingTable> table = read_routing_file(std::string(text.substr(kFile.size())));
    if (!table) return table.status();
    BenchRouting routing{.spec = {}, .file_top_k = table->top_k, .name = std::string(text)};
    routing.spec.ids = std::move(table->ids);
    return routing;
  }
  Result<RoutingSpec> spec = parse_routing(text);
  if (spec) return BenchRouting{.spec = *std::move(spec), .file_top_k = 0, .name = std::string(text)};
  return invalid_argument("--routing must be uniform, zipf:S with S from 0 to 10, or file:PATH",
                          fmt::format("'{}'", text), "write for example zipf:1.2");
}

std::string shape_label(const BenchRequest& request) {
  const LayerShape& shape = request.shape.shape;
  if (request.shape.name != "custom") return std::string(request.shape.name);
  return fmt::format("{},{},{},{}", shape.hidden, shape.intermediate, shape.num_experts, shape.top_k);
}

Json result_json(const BenchRequest& request, const BenchResult& result) {
  const double gflops = result.gflops();
  const double gbytes = result.gbytes_per_s();
  return {{"backend", to_string(result.plan.backend)},
          {"strategy", to_string(result.plan.strategy)},
          {"shape", shape_label(request)},
          {"format", to_string(result.format)},
          {"tokens", result.tokens_per_rank},
          {"ranks", result.plan.num_ranks},
          {"threads", result.num_threads()},
          {"median_us", result.median_seconds() * 1e6},
          {"min_us", result.call_seconds.front() * 1e6},
          {"max_us", result.call_seconds.back() * 1e6},
          {"flops", result.flops()},
          {"weight_bytes", result.weight_bytes},
          {"gflops", gflops},
          {"gbytes_per_s", gbytes},
          {"ceiling_gflops", result.ceiling_gflops ? Json(*result.ceiling_gflops) : Json()},
          {"ceiling_arithmetic", result.ceiling_gflops ? Json(compute_kind(result.plan.isa)) : Json()},
          {"ceiling_read_gbytes_per_s", result.ceiling_read_gbytes_per_s},
          {"fraction_of_compute", result.ceiling_gflops ? Json(gflops / *result.ceiling_gflops) : Json()},
          {"fraction_of_read", gbytes / result.ceiling_read_gbytes_per_s},
          {"one_rank_of", request.one_rank_of == 0 ? Json() : Json(request.one_rank_of)},
          {"routing", request.routing.name},
          {"rows", result.num_rows},
          {"active_experts", result.num_active_experts},
          {"calls", result.call_seconds.size()},
          {"version", version()},
          {"plan", plan_json(result.plan)}};
}

std::string ceilings_text(const BenchResult& result) {
  const std::string compute = result.ceiling_gflops ? fmt::format("{:.1f} GFLOP/s ({}), ", *result.ceiling_gflops,
                                                                  compute_kind(result.plan.isa))
                                                    : "";
  return fmt::format("{}{:.1f} GB/s read", compute, result.ceiling_read_gbytes_per_s);
}

std::string results_text(const BenchRequest& request, const std::vector<BenchResult>& results) {
  const BenchResult& first = results.front();
  std::string text = fmt::format(
      "{}{}: backend {}, {} ranks with {} each, routing {}\nceilings: {}\n", shape_label(request),
      request.one_rank_of == 0 ? "" : fmt::format(", one rank of {}", request.one_rank_of), backend_text(first.plan),
      first.plan.num_ranks, workers_text(first.plan), request.routing.name, ceilings_text(first));
  Table table({"format", "tokens/rank", "median", "min", "max", "GFLOP/s", "of compute", "GB/s", "of read"});
  for (const BenchResult& result : results) {
    const std::string of_compute =
        result.ceiling_gflops ? fmt::format("{:.1f} %", 100 * result.gflops() / *result.ceiling_gflops) : "-";
    table.add({std::string(to_string(result.format)), fmt::format("{}", result.tokens_per_rank),
               format_seconds(result.median_seconds()), format_seconds(result.call_seconds.front()),
               format_seconds(result.call_seconds.back()), fmt::format("{:.2f}", result.gflops()), of_compute,
               fmt::format("{:.2f}", result.gbytes_per_s()),
               fmt::format("{:.1f} %", 100 * result.gbytes_per_s() / result.ceiling_read_gbytes_per_s)});
  }
  return text + table.to_text();
}

Exit bench(const BenchOptions& options) {
  if (options.stage) {
    stages::StageBenchSpec spec = options.stage_spec;
    spec.stage = *options.stage;
    return bench_stages(options.request, spec, options.form);
  }
  const Result<std::vector<BenchResult>> results = bench_layer(options.request);
  if (!results) return report_error(results.status());
  if (options.form == OutputForm::text) {
    print_text(results_text(options.request, *results));
    return Exit::ok;
  }
  Json list = Json::array();
  for (const BenchResult& result : *results) list.push_back(result_json(options.request, result));
  print_json(list);
  return Exit::ok;
}

/// What is measured.
void add_workload(Command& command, BenchRequest& request) {
  add_parsed(command,
             {.name = "--shape",
              .value = "SHAPE",
              .help = shape_names() + " or H,I,E,k: hidden, intermediate, experts, choices per token",
              .presence = Presence::required},
             request.shape, parse_shape);
  add_whole_list(command, {.name = "--tokens", .value = "N,N,...", .help = "tokens per rank (default 1,16,256)"},
                 request.tokens, {.min = 0, .max = 1 << 20});
  add_whole(command, {.name = "--ranks", .value = "N", .help = "ranks of the group, 1 to 64 (default 1)"},
            request.num_ranks, kRanks);
  add_whole(command, {.name = "--one-rank-of", .value = "N", .help = "play one rank of a group of N alone (see below)"},
            request.one_rank_of, {.min = 1, .max = 1024});
  add_parsed(command,
             {.name = "--format",
              .value = "NAME,...",
              .help = "fp8, mxfp4, bf16 or several with commas: how weights are stored (default fp8)"},
             request.formats, parse_format_list);
  add_parsed(command,
             {.name = "--routing",
              .value = "HOW",
              .help = "uniform (default), zipf:S, or file:PATH with ids: .json {\"topk_idx\": [[3,7],[0,-1]]} or "
                      "safetensors"},
             request.routing, parse_bench_routing);
}

/// One communication stage instead of the layer.
void add_stage(Command& command, BenchOptions& options) {
  const std::string group = "One stage alone (Hopper GPUs)";
  add_parsed(command, {.name = "--stage", .value = "NAME", .help = "dispatch or combine (see below)", .group = group},
             options.stage, stages::parse_timed_stage);
  add_whole(command, {.name = "--blocks", .value = "N", .help = "blocks per rank (default 16)", .group = group},
            options.stage_spec.blocks_per_rank, {.min = 1, .max = 1024});
  add_whole(command,
            {.name = "--block-threads",
             .value = "N",
             .help = "threads per block, a multiple of 32 (default 512)",
             .group = group},
            options.stage_spec.threads_per_block, {.min = 32, .max = sm90::kMaxPlainThreads});
}

/// How long it is measured.
void add_clock(Command& command, BenchRequest& request) {
  add_whole(command, {.name = "--repeat", .value = "N", .help = "time at least N calls (default 5)"}, request.num_calls,
            kCalls);
  add_whole(command, {.name = "--warmup", .value = "N", .help = "calls before the clock starts (default 2)"},
            request.num_warmup_calls, {.min = 0, .max = kCalls.max});
  const auto parse_seconds = [](std::string_view text) { return parse_real("--min-time", text, 0); };
  add_parsed(
      command,
      {.name = "--min-time", .value = "SECONDS", .help = "keep calling for at least this many seconds (default 0.5)"},
      request.min_seconds, parse_seconds);
}

}  // namespace

void add_bench(CommandLine& line) {
  const auto options = std::make_shared<BenchOptions>();
  Command command =
      line.add_command("bench", "Time a layer with synthetic weights and compare with this machine's ceilings", kFooter,
                       [options] { return bench(*options); });
  add_workload(command, options->request);
  add_clock(command, options->request);
  add_stage(command, *options);
  add_backend(command, options->request.backend);
  add_tuning(command, options->request.tuning);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
