// The megamoe command: one subcommand, and an exit code that tells the truth.

#include <cstdio>
#include <exception>
#include <string>

#include "command_line.hpp"
#include "commands.hpp"

int main(int argc, char** argv) {
  using namespace megamoe::cli;
  Exit exit = Exit::failed;
  try {
    CommandLine line;
    for (const auto add : {add_info, add_inspect, add_plan, add_run, add_check, add_bench, add_demo}) add(line);
    exit = line.run(argc, argv);
  } catch (const std::exception& failure) {
    note(std::string("megamoe: ") + failure.what());
  }
  // A full disk or a closed pipe must not look like success.
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!is_written && exit == Exit::ok) {
    note("megamoe: standard output must take all that is written (it did not); free space or mend the pipe");
    exit = Exit::failed;
  }
  return static_cast<int>(exit);
}
