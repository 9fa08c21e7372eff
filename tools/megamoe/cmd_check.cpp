// megamoe check: the case table against the FP64 reference.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "check/runner.hpp"
#include "check/stages/stage_runs.hpp"
#include "commands.hpp"
#include "host/errors.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "reference/judge.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Every case makes a layer and its tokens from a seed, runs it, and demands of every call: each row within the bound of the
FP64 reference (a row error is relative to the row's norm); the same bits as one rank of that backend (on the CPU with one
worker); the right number of rows for every expert. With --backend sm90 the stages of dispatch and combine are also run on
their own, on one rank to a GPU or several, and what they leave in the workspaces must equal, bit for bit, what the CPU
backend's stages leave there.

A case is skipped only if this machine lacks the backend or the instruction set, or if the backend cannot take the case's
weights or the CPU tuning that it is about; the line says why. On sm90 and chain, cases run with these backends' own tiles.

The last line reads `N passed, N failed`; the exit code is 1 if any case failed.

Examples:
  megamoe check
  megamoe check --backend cpu --suite full
  megamoe check --backend sm90 --filter ranks/
  megamoe check --suite full --filter case09 --json
  megamoe check --suite full --list)";

enum class Listing : uint8_t { off, on };

struct CheckOptions {
  Backend backend = Backend::automatic;
  Suite suite = Suite::quick;
  std::string filter;
  Listing listing = Listing::off;
  OutputForm form = OutputForm::text;
};

Exit list_runs(const std::vector<NamedRun>& runs, OutputForm form) {
  Json names = Json::array();
  std::string text;
  for (const NamedRun& run : runs) {
    names.push_back(run.name);
    text += run.name + "\n";
  }
  if (form == OutputForm::json) {
    print_json({{"cases", names}});
  } else {
    print_text(text);
  }
  return Exit::ok;
}

std::string result_text(const CaseResult& result) {
  std::string line = fmt::format("{:<8}{}", to_string(result.outcome), result.name);
  if (result.outcome == CaseOutcome::passed) {
    line += fmt::format("  (worst row error {:.4f} % of {} rows, {})", 100 * result.worst_row_error, result.num_rows,
                        format_seconds(result.seconds));
  }
  if (!result.message.empty()) line += fmt::format("  {}", result.message);
  return line + "\n";
}

Json result_json(const CaseResult& result) {
  return {{"name", result.name},
          {"outcome", to_string(result.outcome)},
          {"worst_row_error", result.worst_row_error},
          {"num_rows", result.num_rows},
          {"seconds", result.seconds},
          {"message", result.message}};
}

/// The last line is "N passed, N failed" and nothing else: scripts read it.
std::string summary_text(const CheckSummary& summary) {
  const std::string skipped =
      summary.skipped > 0 ? fmt::format("{} skipped: this machine, build or backend cannot run them\n", summary.skipped)
                          : "";
  return fmt::format("worst row error {:.4f} %, bound {} %\n{}{} passed, {} failed\n", 100 * summary.worst_row_error,
                     100 * kMaxRowError, skipped, summary.passed, summary.failed);
}

Json summary_json(const CheckOptions& options, const CheckSummary& summary, Json cases) {
  return {{"backend", to_string(options.backend)},
          {"suite", to_string(options.suite)},
          {"passed", summary.passed},
          {"failed", summary.failed},
          {"skipped", summary.skipped},
          {"worst_row_error", summary.worst_row_error},
          {"row_error_bound", kMaxRowError},
          {"cases", std::move(cases)}};
}

Exit check(const CheckOptions& options) {
  const std::vector<CheckCase> cases = check_cases(options.suite);
  std::vector<NamedRun> runs = named_runs(cases, options.backend);
  if (options.backend == Backend::sm90) {
    for (NamedRun& run : stages::stage_runs(options.suite)) runs.push_back(std::move(run));
  }
  std::erase_if(runs, [&](const NamedRun& one) { return one.name.find(options.filter) == std::string::npos; });
  if (runs.empty()) {
    return report_error(invalid_argument("--filter must match at least one case", fmt::format("'{}'", options.filter),
                                         "see the names with --list"));
  }
  if (options.listing == Listing::on) return list_runs(runs, options.form);

  Json results = Json::array();
  CheckSummary summary;
  {
    Progress progress("checking");
    summary = run_all(runs, [&](const CaseResult& result, size_t done, size_t total) {
      progress.update(done, total);
      if (options.form == OutputForm::json) {
        results.push_back(result_json(result));
      } else if (result.outcome != CaseOutcome::passed || options.suite == Suite::quick) {
        progress.wipe();
        print_text(result_text(result));
      }
    });
  }
  if (summary.passed + summary.failed == 0) {
    return report_error(error(StatusCode::unsupported, "at least one case must be able to run here",
                              fmt::format("{} skipped on backend {}", summary.skipped, to_string(options.backend)),
                              "choose a backend that `megamoe info` lists"));
  }
  if (options.form == OutputForm::json) {
    print_json(summary_json(options, summary, std::move(results)));
  } else {
    print_text(summary_text(summary));
  }
  return summary.failed == 0 ? Exit::ok : Exit::failed;
}

}  // namespace

void add_check(CommandLine& line) {
  const auto options = std::make_shared<CheckOptions>();
  Command command = line.add_command("check", "Run the case table and judge every row against an FP64 reference",
                                     kFooter, [options] { return check(*options); });
  add_backend(command, options->backend);
  add_parsed(command,
             {.name = "--suite",
              .value = "NAME",
              .help = "quick: one case of every kind, seconds (default); full: everything, minutes"},
             options->suite, parse_suite);
  command.add({.name = "--filter", .value = "TEXT", .help = "only cases whose name contains this"},
              [options](std::string_view text) -> Status {
                options->filter = text;
                return {};
              });
  command.add_flag("--list", "print the names of the cases and run nothing",
                   [options] { options->listing = Listing::on; });
  add_json(command, options->form);
}

}  // namespace megamoe::cli
