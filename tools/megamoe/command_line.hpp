#pragma once

// The command line: subcommands, their options, and what a wrong one is told. The parser behind it stays out of this
// header because it costs more to compile than all subcommands together.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "console.hpp"
#include "megamoe/status.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace megamoe::cli {

enum class Presence : uint8_t { optional, required };

/// How an option appears in the help.
struct OptionText {
  std::string name;   ///< "--ranks", or "FILE" for an argument without a dash
  std::string value;  ///< what its value is called: "N", "PATH"
  std::string help;
  Presence presence = Presence::optional;
  std::string group = "Options";
};

/// One subcommand while its options are declared.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(app) {}
  /// `store` takes the option's text; its error becomes a usage error.
  void add(const OptionText& text, std::function<Status(std::string_view)> store);
  /// An option without a value.
  void add_flag(const std::string& name, const std::string& help, std::function<void()> set);

 private:
  CLI::App& app_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// `action` runs if this is the subcommand that was called, after its options have been stored.
  Command add_command(const std::string& name, const std::string& summary, std::string_view footer,
                      std::function<Exit()> action);
  /// Reads the command line and runs one subcommand.
  Exit run(int argc, char** argv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace megamoe::cli
