// The megamoe command: reads the command line, runs one subcommand, turns its outcome into an exit code.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "commands.hpp"
#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kDescription =
    "MegaMoE: one Mixture-of-Experts layer forward under expert parallelism.\n"
    "Start with `megamoe demo`. Results go to standard output; notes, progress and errors to standard error.\n"
    "Exit codes: 0 all well, 1 a check or a run failed, 2 bad arguments or bad input.";

std::string called_command(const CLI::App& app) {
  const auto called = app.get_subcommands();
  return called.empty() ? "megamoe" : fmt::format("megamoe {}", called.front()->get_name());
}

/// What the command line broke, as rule, value and remedy.
Status usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string remedy = fmt::format("see `{} --help`", called_command(app));
  const std::string kind = error.get_name();
  if (kind == "ValidationError") return {StatusCode::invalid_argument, fmt::format("{}; {}", error.what(), remedy)};
  if (kind == "ExtrasError") {
    return invalid_argument(fmt::format("every argument must be one that `{}` knows", called_command(app)),
                            error.what(), remedy);
  }
  if (kind == "RequiredError") {
    const std::string rule = app.get_subcommands().empty()
                                 ? "a subcommand must be named: info, inspect, plan, run, check, bench or demo"
                                 : fmt::format("a required argument must be given: {}", error.what());
    return invalid_argument(rule, "none", remedy);
  }
  return invalid_argument("options must be written as the help says", error.what(), remedy);
}

Exit run_command_line(int argc, char** argv) {
  CLI::App app{std::string{kDescription}, "megamoe"};
  app.set_version_flag("--version", fmt::format("megamoe {}", version()));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Action chosen;
  for (const auto add : {add_info, add_inspect, add_plan, add_run, add_check, add_bench, add_demo}) add(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? Exit::ok : Exit::failed;  // --help, --version
    return report_error(usage_error(app, error));
  }
  return chosen();
}

}  // namespace
}  // namespace megamoe::cli

int main(int argc, char** argv) {
  using megamoe::cli::Exit;
  Exit exit = Exit::failed;
  try {
    exit = megamoe::cli::run_command_line(argc, argv);
  } catch (const std::exception& failure) {
    megamoe::cli::note(fmt::format("megamoe: {}", failure.what()));
  }
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0 && exit == Exit::ok) {
    megamoe::cli::note(
        "megamoe: standard output must take all that is written (it did not); free space or mend the pipe");
    exit = Exit::failed;
  }
  return static_cast<int>(exit);
}
