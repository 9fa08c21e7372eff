// megamoe bench: how fast a layer is, against what this machine can do.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench_layer.hpp"
#include "bench_record.hpp"
#include "bench_report.hpp"
#include "bench_stage_report.hpp"
#include "commands.hpp"
#include "host/errors.hpp"
#include "options.hpp"
#include "routing_file.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Weights and tokens are made from a seed. Each row of a table is one format with one number of tokens:
  median, min, max  wall time of one call of the whole group; on GPUs the time between events around the launches of the
                    slowest rank, L2 flushed before each call, and spread, (max - min) / median
  GFLOP/s           2 * rows * 3 * hidden * intermediate / median; a row is one token at one of its experts
  GB/s              bytes of values and scales, as stored, of the experts that got a row / median
  of compute        GFLOP/s over what all worker threads do at best with the multiply-adds of the instruction set in use
                    (FP32 vectors, BF16 dot products or BF16 tiles), measured in the same run
  of FP8            on GPUs instead: over the rate of one FP8 product of 8192 x 8192 x 8192 by cuBLASLt on one GPU,
                    fast accumulation off, times the GPUs that play the ranks
  of read           GB/s over the rate at which they read memory, measured in the same run; on GPUs one GPU's rate
                    times their number
On GPUs also:
  moved             weight bytes as above, and each row there (FP8, scales, router weight) and back (BF16)
  link GB/s         bytes of rows that come over links into the GPU that gets most / median; - with one GPU
  overlap           time of all stages, added up, over the time of the call; - where stages are not timed one by one
  strategy          what gemm1 and gemm2 ran as
In JSON, threads counts the workers of all ranks.

cuBLASLt is no part of MegaMoE: the loader looks for libcublasLt.so.13, then .so.12, in LD_LIBRARY_PATH and the system's
folders, then in /usr/local/cuda/lib64. As a package of PyPI it is site-packages/nvidia/cu13/lib/libcublasLt.so.13. Without
it there is no FP8 ceiling, and the heading says why.

Each shape's table is printed, and the record of --out written, as soon as the shape is done. bench/plot_record.py makes an
SVG chart of records.

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
  megamoe bench --backend sm90 --shape v4-flash,v3 --one-rank-of 8 --tokens 1,128,8192 --out record.json
  megamoe bench --shape 1024,512,16,4 --tokens 64 --routing file:ids.json)";

struct BenchOptions {
  BenchRequest request;
  std::optional<stages::TimedStage> stage;  ///< of the layer, alone; none: all of it
  stages::StageBenchSpec stage_spec;
  std::string record;  ///< file that a record is written to; empty: none
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

/// What can be refused before anything is measured.
Status check_options(const BenchOptions& options) {
  const BenchRequest& request = options.request;
  const bool is_cpu = request.backend == Backend::automatic || request.backend == Backend::cpu;
  if (is_cpu && !request.cublaslt.empty()) {
    return invalid_argument("--cublaslt is for GPUs' ceilings", to_string(request.backend),
                            "add --backend sm90 or chain, or leave it out");
  }
  if (options.stage && !options.record.empty()) {
    return invalid_argument("--out is for whole layers", "--stage", "use --json with --stage");
  }
  if (!options.stage) {
    for (const NamedShape& named : request.shapes) MM_RETURN_IF_ERROR(check_shape(request, named));
  }
  return options.record.empty() ? Status() : check_record_path(options.record);
}

/// Prints each shape's table, and writes the record, as soon as the shape is done: a run may be cut off in the middle.
Status bench_layers(const BenchOptions& options) {
  std::optional<Ceilings> ceilings;
  Json rows = Json::array();
  Status status;
  for (size_t i = 0; status.ok() && i < options.request.shapes.size(); ++i) {
    std::vector<BenchResult> results;
    status = bench_layer(options.request, options.request.shapes[i], ceilings, results);
    if (results.empty()) break;
    for (Json& row : results_json(options.request, results)) rows.push_back(std::move(row));
    if (options.form == OutputForm::text) {
      print_text((i > 0 ? "\n" : "") + results_text(options.request, results));
      std::fflush(stdout);
    }
    if (!options.record.empty()) {
      const Status written = write_record(options.record, ceilings, rows);
      if (status.ok()) status = written;
    }
  }
  if (options.form == OutputForm::json && (status.ok() || !rows.empty())) print_json(rows);
  return status;
}

Exit bench(const BenchOptions& options) {
  const Status refusal = check_options(options);
  if (!refusal.ok()) return report_error(refusal);
  if (options.stage) {
    stages::StageBenchSpec spec = options.stage_spec;
    spec.stage = *options.stage;
    return bench_stages(options.request, spec, options.form);
  }
  const Status status = bench_layers(options);
  return status.ok() ? Exit::ok : report_error(status);
}

/// What is measured.
void add_workload(Command& command, BenchRequest& request) {
  add_parsed(command,
             {.name = "--shape",
              .value = "SHAPE,...",
              .help = shape_names() + " or H,I,E,k (hidden, intermediate, experts, choices per token), or several: one "
                                      "table each",
              .presence = Presence::required},
             request.shapes, parse_shapes);
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

/// What it is held against, and where it is kept.
void add_outputs(Command& command, BenchOptions& options) {
  add_path(command,
           {.name = "--cublaslt",
            .value = "PATH",
            .help = "libcublasLt.so that tells a GPU's FP8 ceiling (default: what the loader finds; see below)"},
           options.request.cublaslt);
  add_path(command,
           {.name = "--out",
            .value = "FILE",
            .help = "write a record as JSON as well: date, command, machine, driver, clocks, ceilings and all rows"},
           options.record);
  add_json(command, options.form);
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
  add_outputs(command, *options);
}

}  // namespace megamoe::cli
