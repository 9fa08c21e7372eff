#include "bench_stage_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/errors.hpp"
#include "progress.hpp"

namespace megamoe::cli {
namespace {

using stages::StageBenchResult;
using stages::StageBenchSpec;
using stages::TimedStage;

/// The part in which rows cross the links.
sm90::Part moving_part(TimedStage stage) { return stage == TimedStage::dispatch ? sm90::Part::pull : sm90::Part::push; }

double gbytes_per_s(uint64_t bytes, double seconds) { return static_cast<double>(bytes) / seconds * 1e-9; }

double moving_seconds(const StageBenchSpec& spec, const StageBenchResult& result) {
  return median(result.part_seconds[static_cast<uint32_t>(moving_part(spec.stage))]);
}

Json result_json(const StageBenchSpec& spec, const StageBenchResult& result) {
  Json parts = Json::object();
  for (uint32_t p = 0; p < sm90::kNumParts; ++p) {
    if (result.part_seconds[p].empty()) continue;
    parts[std::string(stages::to_string(sm90::Part{p}))] = median(result.part_seconds[p]) * 1e6;
  }
  const double seconds = moving_seconds(spec, result);
  return {{"stage", to_string(spec.stage)},
          {"device", result.device_name},
          {"devices", result.num_devices},
          {"ranks", spec.num_ranks},
          {"tokens", spec.tokens_per_rank},
          {"blocks_per_rank", spec.blocks_per_rank},
          {"threads_per_block", spec.threads_per_block},
          {"kernel_median_us", median(result.kernel_seconds) * 1e6},
          {"kernel_min_us", result.kernel_seconds.front() * 1e6},
          {"kernel_max_us", result.kernel_seconds.back() * 1e6},
          {"flow_median_us", median(result.flow_seconds) * 1e6},
          {"part_median_us", parts},
          {"row_bytes", result.row_bytes},
          {"remote_bytes", result.remote_bytes},
          {"moving_part", stages::to_string(moving_part(spec.stage))},
          {"remote_gbytes_per_s", gbytes_per_s(result.remote_bytes, seconds)},
          {"all_gbytes_per_s", gbytes_per_s(result.row_bytes, seconds)},
          {"ceiling_link_gbytes_per_s", result.link_gbytes_per_s},
          {"calls", result.kernel_seconds.size()}};
}

std::string heading(const StageBenchSpec& spec, const StageBenchResult& first) {
  const std::string link =
      first.num_devices > 1
          ? fmt::format("ceiling: {:.0f} GB/s a direction, large copies both ways at once", first.link_gbytes_per_s)
          : "one GPU: nothing crosses a link";
  return fmt::format("{} on {} x {}: {} ranks, {} blocks of {} threads each\n{}\n", to_string(spec.stage),
                     first.num_devices, first.device_name, spec.num_ranks, spec.blocks_per_rank, spec.threads_per_block,
                     link);
}

std::vector<std::string> row_text(const StageBenchSpec& spec, const StageBenchResult& result) {
  const double seconds = moving_seconds(spec, result);
  std::string parts;
  for (uint32_t p = 0; p < sm90::kNumParts; ++p) {
    if (result.part_seconds[p].empty()) continue;
    parts += fmt::format("{}{} {:.1f}", parts.empty() ? "" : ", ", stages::to_string(sm90::Part{p}),
                         median(result.part_seconds[p]) * 1e6);
  }
  return {fmt::format("{}", spec.tokens_per_rank),
          format_seconds(median(result.kernel_seconds)),
          format_seconds(result.kernel_seconds.front()),
          format_seconds(result.kernel_seconds.back()),
          format_seconds(median(result.flow_seconds)),
          fmt::format("{:.1f}", gbytes_per_s(result.remote_bytes, seconds)),
          fmt::format("{:.1f}", gbytes_per_s(result.row_bytes, seconds)),
          parts};
}

/// One shape: adds to `list`, and to `text` a heading and a table.
Status bench_shape(const BenchRequest& request, const NamedShape& named, StageBenchSpec spec, Json& list,
                   std::string& text) {
  spec.shape = named.shape;
  std::string head;
  Table table({"tokens/rank", "kernel median", "min", "max", "first to last", "remote GB/s", "all GB/s",
               "parts, first begin to last end, us"});
  for (size_t i = 0; i < request.tokens.size(); ++i) {
    spec.tokens_per_rank = request.tokens[i];
    if (spec.tokens_per_rank == 0) {
      return invalid_argument("--tokens must be at least 1 with --stage", 0, "there is nothing to move without tokens");
    }
    Progress progress(fmt::format("timing {} of {}", to_string(spec.stage), shape_label(named)));
    progress.update(i, request.tokens.size());
    const Result<StageBenchResult> result = stages::bench_stage(spec);
    MM_RETURN_IF_ERROR(result.status());
    if (head.empty()) head = shape_label(named) + ": " + heading(spec, *result);
    list.push_back(result_json(spec, *result));
    list.back()["shape"] = shape_label(named);
    table.add(row_text(spec, *result));
  }
  text += (text.empty() ? "" : "\n") + head + table.to_text();
  return {};
}

}  // namespace

Exit bench_stages(const BenchRequest& request, StageBenchSpec spec, OutputForm form) {
  spec.num_ranks = request.num_ranks;
  spec.num_calls = std::max(spec.num_calls, request.num_calls);
  Json list = Json::array();
  std::string text;
  for (const NamedShape& named : request.shapes) {
    const Status status = bench_shape(request, named, spec, list, text);
    if (!status.ok()) return report_error(status);
  }
  if (form == OutputForm::json) {
    print_json(list);
  } else {
    print_text(text);
  }
  return Exit::ok;
}

}  // namespace megamoe::cli
