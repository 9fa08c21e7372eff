#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace megamoe::cli {
namespace {

constexpr uint32_t kBarWidth = 40;
constexpr uint32_t kMaxBars = 32;

std::string verdict_word(bool is_ok) { return is_ok ? "ok" : "FAILED"; }

/// max over mean of the rows per expert; 1 is perfect balance.
double imbalance(const std::vector<uint32_t>& rows) {
  const uint64_t sum = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
  if (sum == 0) return 0;
  return *std::max_element(rows.begin(), rows.end()) * static_cast<double>(rows.size()) / static_cast<double>(sum);
}

/// At most kMaxBars bars; with more experts, each bar is the mean of a run of neighbours.
std::string histogram_text(const std::vector<uint32_t>& rows) {
  const size_t num_experts = rows.size();
  const size_t experts_per_bar = (num_experts + kMaxBars - 1) / kMaxBars;
  std::vector<double> means;
  for (size_t first = 0; first < num_experts; first += experts_per_bar) {
    const size_t end = std::min(first + experts_per_bar, num_experts);
    const uint64_t sum = std::accumulate(rows.begin() + first, rows.begin() + end, uint64_t{0});
    means.push_back(static_cast<double>(sum) / static_cast<double>(end - first));
  }
  const double max_mean = means.empty() ? 0 : *std::max_element(means.begin(), means.end());
  std::string text =
      fmt::format("expert load in rows{}; max over mean {:.2f}\n",
                  experts_per_bar > 1 ? fmt::format(", means of {} experts", experts_per_bar) : "", imbalance(rows));
  for (size_t bar = 0; bar < means.size(); ++bar) {
    text += fmt::format("  {:>4} {:>7.{}f} {}", bar * experts_per_bar, means[bar], experts_per_bar > 1 ? 1 : 0,
                        format_bar(means[bar], max_mean, kBarWidth));
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

Json reference_json(const Verdict& verdict) {
  return {{"ok", verdict.ok()},
          {"num_rows", verdict.num_rows},
          {"num_bad_rows", verdict.num_bad_rows},
          {"worst_row", verdict.worst_row},
          {"worst_row_error", verdict.worst_error},
          {"bound", kMaxRowError},
          {"message", verdict.message}};
}

Json stored_json(const StoredCheck& stored) {
  const StoredComparison& comparison = stored.comparison;
  return {{"tensor", stored.name},
          {"ok", comparison.ok()},
          {"num_rows", comparison.num_rows},
          {"num_bad_rows", comparison.num_bad_rows},
          {"worst_row", comparison.worst_row},
          {"worst_row_error", comparison.worst_error},
          {"bound", kMaxStoredRowError},
          {"median_error", comparison.median_error},
          {"median_bound", kMaxStoredMedianError}};
}

Json times_json(const RunReport& report) {
  Json stages = Json::object();
  for (size_t i = 0; i < kNumStages; ++i) {
    stages[std::string(to_string(static_cast<Stage>(i)))] = report.stages.busy_seconds[i] * 1e6;
  }
  stages["wait"] = report.stages.wait_seconds * 1e6;
  Json calls = Json::array();
  for (const double seconds : report.call_seconds) calls.push_back(seconds * 1e6);
  return {{"call_us", calls},
          {"median_us", report.median_seconds() * 1e6},
          {"stage_us_per_worker", stages},
          {"tokens_per_second", report.num_tokens() / report.median_seconds()}};
}

}  // namespace

std::string_view to_string(GateUpLayout layout) {
  switch (layout) {
    case GateUpLayout::separate: return "separate";
    case GateUpLayout::concatenated: return "concatenated";
    case GateUpLayout::interleaved: return "interleaved";
  }
  return "unknown";
}

std::string storage_text(const MoeLayerInfo& info) {
  std::string text = fmt::format("{} names, {}", to_string(info.naming), to_string(info.format));
  if (info.format == WeightFormat::bf16) return text;
  return text +
         fmt::format(", one {} scale per {}x{}", info.e8m0_scales ? "E8M0" : "F32", info.block_rows, info.block_cols);
}

std::string layer_text(const MoeLayerInfo& info) {
  return fmt::format("layer {}: {}; hidden {}, intermediate {}, {} experts, top {}\n", info.layer_idx,
                     storage_text(info), info.shape.hidden, info.shape.intermediate, info.shape.num_experts,
                     info.shape.top_k);
}

std::string load_text(const RunReport& report) {
  Table table({"rank", "tokens", "experts", "rows received"});
  for (size_t rank = 0; rank < report.tokens_per_rank.size(); ++rank) {
    table.add({fmt::format("{}", rank), fmt::format("{}", report.tokens_per_rank[rank]),
               fmt::format("{}", report.experts_per_rank[rank]), fmt::format("{}", report.rows_per_rank[rank])});
  }
  return table.to_text() + histogram_text(report.rows_per_expert);
}

std::string time_text(const RunReport& report) {
  const StageTimes& stages = report.stages;
  const double total = std::accumulate(stages.busy_seconds.begin(), stages.busy_seconds.end(), stages.wait_seconds);
  Table table({"stage", "per worker", "share"});
  const auto add = [&](std::string_view name, double seconds) {
    const double share = total > 0 ? seconds / total : 0;
    table.add({std::string(name), format_seconds(seconds), fmt::format("{:.1f} %", 100 * share)});
  };
  for (size_t i = 0; i < kNumStages; ++i) add(to_string(static_cast<Stage>(i)), stages.busy_seconds[i]);
  add("wait", stages.wait_seconds);
  const double seconds = report.median_seconds();
  return table.to_text() + fmt::format("call: median {} of {}; {:.0f} tokens/s\n", format_seconds(seconds),
                                       report.call_seconds.size(), report.num_tokens() / seconds);
}

std::string check_text(const RunReport& report) {
  std::string text;
  if (report.reference) {
    const Verdict& verdict = *report.reference;
    text += fmt::format("against the FP64 reference: worst row error {:.4f} % (row {}), bound {} %: {}\n",
                        100 * verdict.worst_error, verdict.worst_row, 100 * kMaxRowError, verdict_word(verdict.ok()));
    if (!verdict.ok()) text += fmt::format("  {} bad rows; {}\n", verdict.num_bad_rows, verdict.message);
  }
  if (report.stored) {
    const StoredComparison& stored = report.stored->comparison;
    text += fmt::format(
        "against stored {}: worst row error {:.2f} % (row {}), bound {} %; median {:.2f} %, bound {} %: {}\n",
        report.stored->name, 100 * stored.worst_error, stored.worst_row, 100 * kMaxStoredRowError,
        100 * stored.median_error, 100 * kMaxStoredMedianError, verdict_word(stored.ok()));
    if (!stored.ok()) text += fmt::format("  {} bad rows\n", stored.num_bad_rows);
  }
  return text;
}

std::string run_text(const RunReport& report) {
  const PlanInfo& plan = report.plan;
  std::string text = layer_text(report.info);
  text += fmt::format("backend {}, {} ranks with {} each, block_m {}; routing: {}\n", backend_text(plan),
                      plan.num_ranks, workers_text(plan), plan.block_m, report.routing);
  text += load_text(report) + time_text(report) + check_text(report);
  if (!report.out.empty()) text += fmt::format("wrote {}\n", report.out);
  return text;
}

Json layer_json(const MoeLayerInfo& info) {
  return {{"layer", info.layer_idx},
          {"naming", to_string(info.naming)},
          {"format", to_string(info.format)},
          {"shared_format", info.shared_format ? Json(to_string(*info.shared_format)) : Json()},
          {"scale_block", {info.block_rows, info.block_cols}},
          {"scale_type", info.format == WeightFormat::bf16 ? Json() : Json(info.e8m0_scales ? "e8m0" : "f32")},
          {"gate_up_layout", to_string(info.layout)},
          {"biases", info.has_biases},
          {"shape", shape_json(info.shape)},
          {"router", info.router.has_value()},
          {"activation",
           {{"limit", info.activation.limit ? Json(*info.activation.limit) : Json()},
            {"alpha", info.activation.alpha},
            {"up_offset", info.activation.up_offset}}},
          {"missing", info.missing},
          {"unknown", info.unknown}};
}

Json run_json(const RunReport& report) {
  return {{"layer", layer_json(report.info)},
          {"plan", plan_json(report.plan)},
          {"routing", report.routing},
          {"tokens", report.num_tokens()},
          {"tokens_per_rank", report.tokens_per_rank},
          {"experts_per_rank", report.experts_per_rank},
          {"rows_per_rank", report.rows_per_rank},
          {"rows_per_expert", report.rows_per_expert},
          {"load_max_over_mean", imbalance(report.rows_per_expert)},
          {"time", times_json(report)},
          {"reference", report.reference ? reference_json(*report.reference) : Json()},
          {"stored", report.stored ? stored_json(*report.stored) : Json()},
          {"out", report.out.empty() ? Json() : Json(report.out)},
          {"ok", report.ok()}};
}

}  // namespace megamoe::cli
