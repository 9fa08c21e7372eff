#pragma once

// The subcommands. Each declares its options on `app` and, when it is the one that was called, leaves in `chosen` what
// to do; main() runs that after the whole command line has been read.

#include <CLI/CLI.hpp>
#include <functional>

#include "console.hpp"

namespace megamoe::cli {

using Action = std::function<Exit()>;

void add_info(CLI::App& app, Action& chosen);
void add_inspect(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_demo(CLI::App& app, Action& chosen);

}  // namespace megamoe::cli
