#pragma once

// The subcommands. Each declares its options and what it does when it is called.

#include "command_line.hpp"

namespace megamoe::cli {

void add_info(CommandLine& line);
void add_inspect(CommandLine& line);
void add_plan(CommandLine& line);
void add_run(CommandLine& line);
void add_check(CommandLine& line);
void add_bench(CommandLine& line);
void add_demo(CommandLine& line);

}  // namespace megamoe::cli
