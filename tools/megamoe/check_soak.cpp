#include "check_soak.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "progress.hpp"
#include "reference/judge.hpp"

namespace megamoe::cli {
namespace {

constexpr std::array kRan = {Strategy::cooperative, Strategy::pingpong, Strategy::small_batch};

/// "; cooperative 31, pingpong 12, small_batch 57", where layers have strategies.
std::string strategies_text(const SoakReport& report) {
  std::string text;
  for (const Strategy strategy : kRan) {
    const uint32_t num_calls = report.calls_of_strategy.at(static_cast<size_t>(strategy));
    if (num_calls > 0) text += fmt::format("{}{} {}", text.empty() ? "; " : ", ", to_string(strategy), num_calls);
  }
  return text;
}

std::string soak_text(const SoakReport& report, uint32_t num_failed) {
  const std::string finding = report.finding.empty() ? "" : fmt::format("failed  {}\n", report.finding);
  return fmt::format(
      "{}{} layers, {} calls{}; {} rows with the same bits; worst row error of first calls {:.4f} %, bound {} %\n"
      "{} passed, {} failed\n",
      finding, report.num_layers, report.num_calls, strategies_text(report), report.num_rows,
      100 * report.worst_row_error, 100 * kMaxRowError, report.num_calls - num_failed, num_failed);
}

Json soak_json(const SoakOptions& options, Backend backend, const SoakReport& report, uint32_t num_failed) {
  Json strategies = Json::object();
  for (const Strategy strategy : kRan) {
    strategies[std::string(to_string(strategy))] = report.calls_of_strategy.at(static_cast<size_t>(strategy));
  }
  return {{"backend", to_string(backend)},
          {"seed", options.seed},
          {"layers", report.num_layers},
          {"calls", report.num_calls},
          {"calls_of_strategy", strategies},
          {"rows", report.num_rows},
          {"worst_row_error", report.worst_row_error},
          {"row_error_bound", kMaxRowError},
          {"finding", report.finding},
          {"passed", report.num_calls - num_failed},
          {"failed", num_failed}};
}

}  // namespace

Exit run_soak(const SoakOptions& options, Backend backend, OutputForm form) {
  Result<SoakReport> report = SoakReport{};
  {
    Progress progress("soaking");
    report = soak({.backend = backend, .seed = options.seed, .num_calls = options.num_calls}, progress.callback());
  }
  if (!report) return report_error(report.status());
  const uint32_t num_failed = report->finding.empty() ? 0 : 1;
  if (form == OutputForm::json) {
    print_json(soak_json(options, backend, *report, num_failed));
  } else {
    print_text(soak_text(*report, num_failed));
  }
  return num_failed == 0 ? Exit::ok : Exit::failed;
}

}  // namespace megamoe::cli
