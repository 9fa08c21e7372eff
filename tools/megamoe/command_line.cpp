#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {
namespace {

constexpr const char* kDescription =
    "MegaMoE: one Mixture-of-Experts layer forward under expert parallelism.\n"
    "Start with `megamoe demo`. Results go to standard output; notes, progress and errors to standard error.\n"
    "Exit codes: 0 all well, 1 a check or a run failed, 2 bad arguments or bad input.";
constexpr size_t kHelpColumn = 34;

std::string called_command(const CLI::App& app) {
  const auto called = app.get_subcommands();
  return called.empty() ? "megamoe" : fmt::format("megamoe {}", called.front()->get_name());
}

/// What the command line broke, as rule, value and remedy.
Status usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string command = called_command(app);
  const std::string remedy = fmt::format("see `{} --help`", command);
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ValidationError:  // an option's own error, complete but for where to read more
      return {StatusCode::invalid_argument, fmt::format("{}; {}", error.what(), remedy)};
    case CLI::ExitCodes::ExtrasError:
      return invalid_argument(fmt::format("every argument must be one that `{}` knows", command), error.what(), remedy);
    case CLI::ExitCodes::RequiredError:
      if (!app.get_subcommands().empty()) {
        return invalid_argument("every required argument must be given", error.what(), remedy);
      }
      return invalid_argument("a subcommand must be named: info, inspect, plan, run, check, bench or demo",
                              app.remaining().empty() ? "none" : app.remaining().front(), remedy);
    default: return invalid_argument("options must be written as the help says", error.what(), remedy);
  }
}

}  // namespace

void Command::add(const OptionText& text, std::function<Status(std::string_view)> store) {
  const auto callback = [store = std::move(store)](const std::string& value) {
    const Status status = store(value);
    if (!status.ok()) throw CLI::ValidationError(status.message(), CLI::ExitCodes::ValidationError);
  };
  app_.add_option_function<std::string>(text.name, callback, text.help)
      ->type_name(text.value)
      ->required(text.presence == Presence::required)
      ->group(text.name.starts_with('-') ? text.group : "Positionals");
}

void Command::add_flag(const std::string& name, const std::string& help, std::function<void()> set) {
  app_.add_flag_callback(name, std::move(set), help);
}

struct CommandLine::State {
  CLI::App app{kDescription, "megamoe"};
  std::function<Exit()> chosen;
};

CommandLine::CommandLine() : state_(std::make_unique<State>()) {
  state_->app.set_version_flag("--version", fmt::format("megamoe {}", version()));
  state_->app.require_subcommand(1);
  state_->app.get_formatter()->column_width(kHelpColumn);
}

CommandLine::~CommandLine() = default;

Command CommandLine::add_command(const std::string& name, const std::string& summary, std::string_view footer,
                                 std::function<Exit()> action) {
  CLI::App* app = state_->app.add_subcommand(name, summary);
  app->footer(std::string{footer});
  app->callback([this, action = std::move(action)] { state_->chosen = action; });
  return Command(*app);
}

Exit CommandLine::run(int argc, char** argv) {
  try {
    state_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report_error(usage_error(state_->app, error));
    state_->app.exit(error);  // prints what --help or --version asked for
    return Exit::ok;
  }
  return state_->chosen();
}

}  // namespace megamoe::cli
