// megamoe check: the case table against the FP64 reference.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "check/runner.hpp"
#include "check/stages/stage_runs.hpp"
#include "check_bits.hpp"
#include "check_soak.hpp"
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
Their full suite runs every case that they can run four times: as it is, and with each strategy forced (NAME/pingpong), which
must have run and give the bits of one rank with strategy auto. --strategy runs the cases once, with that one.

--record-bits and --bits run another list on the GPU instead: small layers, each with every strategy forced in turn, whose
outputs are judged by the same reference and hashed. --record-bits writes the hashes to FILE if all cases pass; --bits names
every case whose hash is not FILE's. The record of an H200 is data/h200-bits/hashes.json: the tests reproduce it without a
GPU, on emulated kernels.

--soak N makes N calls of random small layers instead, several of each: shapes, ranks, formats, activations, token counts,
masks and skews from --seed on. Every call must give the bits of a second layer: on sm90 one of backend chain with another
strategy, on chain one with another strategy, on the CPU one with other threads. The first call of each layer is judged by
the reference too. It ends with the first finding, which names the seed and the call that show it again.

The last line reads `N passed, N failed` and counts cases, with --soak calls; the exit code is 1 if any failed.

Examples:
  megamoe check
  megamoe check --backend cpu --suite full
  megamoe check --backend sm90 --filter ranks/
  megamoe check --suite full --filter case09 --json
  megamoe check --suite full --list
  megamoe check --backend sm90 --strategy pingpong
  megamoe check --backend sm90 --soak 10000 --seed 1
  megamoe check --backend chain --record-bits data/h200-bits/hashes.json
  megamoe check --backend sm90 --bits data/h200-bits/hashes.json)";

enum class Listing : uint8_t { off, on };

struct CheckOptions {
  Backend backend = Backend::automatic;
  Strategy strategy = Strategy::automatic;
  Suite suite = Suite::quick;
  std::string filter;
  Listing listing = Listing::off;
  OutputForm form = OutputForm::text;
  BitOptions bits;
  SoakOptions soak;
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

/// Whether the backend has the strategy that is forced, if one is: said once and not by every case.
Status check_strategy(const CheckOptions& options) {
  if (options.strategy == Strategy::automatic) return {};
  if (options.bits.is_asked_for()) {
    return invalid_argument("--strategy must be left out with --bits and --record-bits", to_string(options.strategy),
                            "their cases force every strategy in turn");
  }
  LayerConfig config = check_cases(Suite::quick).front().config;
  config.backend = options.backend;
  config.tuning = {.strategy = options.strategy};
  return plan(config, 1).status();
}

bool runs_on_hopper(Backend backend) { return backend == Backend::sm90 || backend == Backend::chain; }

/// The cases of the suite with the strategy that is forced; a GPU's full suite without one forces all in turn.
std::vector<CheckCase> find_cases(const CheckOptions& options) {
  std::vector<CheckCase> cases = check_cases(options.suite);
  if (options.strategy == Strategy::automatic && options.suite == Suite::full && runs_on_hopper(options.backend)) {
    return with_every_strategy(cases);
  }
  for (CheckCase& one : cases) one.config.tuning.strategy = options.strategy;
  return cases;
}

std::vector<NamedRun> case_runs(const CheckOptions& options, const std::vector<CheckCase>& cases) {
  std::vector<NamedRun> runs = named_runs(cases, options.backend);
  if (options.backend == Backend::sm90) {
    for (NamedRun& run : stages::stage_runs(options.suite)) runs.push_back(std::move(run));
  }
  return runs;
}

/// What a soak draws itself cannot be asked for.
Status check_soak(const CheckOptions& options) {
  if (options.bits.is_asked_for()) {
    return invalid_argument("--soak must not be given with --bits or --record-bits", "both", "run one, then the other");
  }
  if (!options.filter.empty() || options.listing == Listing::on) {
    return invalid_argument("--soak must be given without --filter and --list",
                            options.filter.empty() ? "--list" : options.filter,
                            "its layers are drawn from --seed and have no names");
  }
  if (options.strategy == Strategy::automatic) return {};
  return invalid_argument("--soak must be given without --strategy", to_string(options.strategy),
                          "it draws strategies as it draws layers");
}

Exit soak(const CheckOptions& options) {
  const Status status = check_soak(options);
  return status.ok() ? run_soak(options.soak, options.backend, options.form) : report_error(status);
}

Exit check(const CheckOptions& options) {
  if (options.soak.is_asked_for()) return soak(options);
  if (const Status status = check_strategy(options); !status.ok()) return report_error(status);
  const std::vector<CheckCase> cases = find_cases(options);
  bits::BitRecord record;
  Result<std::vector<NamedRun>> found =
      options.bits.is_asked_for() ? bit_runs(options.bits, options.backend, record) : case_runs(options, cases);
  if (!found) return report_error(found.status());
  std::vector<NamedRun> runs = *std::move(found);
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
  if (!options.bits.record_file.empty()) {
    const Status written = write_bits(options.bits, record, summary);
    if (!written.ok()) return report_error(written);
  }
  return summary.failed == 0 ? Exit::ok : Exit::failed;
}

}  // namespace

void add_check(CommandLine& line) {
  const auto options = std::make_shared<CheckOptions>();
  Command command = line.add_command("check", "Run the case table and judge every row against an FP64 reference",
                                     kFooter, [options] { return check(*options); });
  add_backend(command, options->backend);
  add_strategy(command, options->strategy);
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
  add_whole(command, {.name = "--soak", .value = "N", .help = "N calls of random small layers instead, 1 to 1000000"},
            options->soak.num_calls, kCalls);
  add_whole(command, {.name = "--seed", .value = "S", .help = "of the soak's first layer, from 1 (default 1)"},
            options->soak.seed, {.min = 1, .max = std::numeric_limits<uint32_t>::max()});
  command.add_flag("--list", "print the names of the cases and run nothing",
                   [options] { options->listing = Listing::on; });
  add_path(command,
           {.name = "--bits", .value = "FILE", .help = "compare the bits of a GPU's outputs with this record instead"},
           options->bits.compare_file);
  add_path(
      command,
      {.name = "--record-bits", .value = "FILE", .help = "record the bits of a GPU's outputs in this file instead"},
      options->bits.record_file);
  add_path(command,
           {.name = "--data",
            .value = "PATH",
            .help = "folder of the tiny model, for --bits and --record-bits (default: data/tiny-moe of the project)"},
           options->bits.model_folder);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
