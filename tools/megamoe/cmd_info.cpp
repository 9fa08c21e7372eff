// megamoe info: what the command was built with and what it finds on this machine.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "host/describe.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "processes.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Backends are those that `--backend` of the other subcommands can take here. The CPU quota is in cores' worth of time per
period, as the control group grants it; threads beyond it gain nothing.

Examples:
  megamoe info
  megamoe info --json)";

constexpr std::string_view kCompiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "g++ " __VERSION__;
#endif

std::string joined(const std::vector<std::string>& texts, std::string_view if_empty) {
  std::string line;
  for (const std::string& text : texts) line += fmt::format("{}{}", line.empty() ? "" : ", ", text);
  return line.empty() ? std::string(if_empty) : line;
}

std::vector<std::string> isa_names(const Machine& machine) {
  std::vector<std::string> names;
  for (const Isa isa : machine.isas) names.emplace_back(to_string(isa));
  return names;
}

std::string info_text(const Machine& machine) {
  std::string text;
  const auto add = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("{:<14} {}\n", what, value);
  };
  add("megamoe", std::string(version()));
  add("build", fmt::format("{}, {}", MM_BUILD_TYPE, kCompiler));
  add("backends", "cpu");
  add("CPU", machine.cpu_model.empty() ? "unknown" : machine.cpu_model);
  add("ISAs", joined(isa_names(machine), "none"));
  add("threads", fmt::format("{} hardware, {} usable", machine.num_hardware_threads, machine.num_usable_threads));
  add("CPU quota", machine.cpu_quota ? fmt::format("{:.2f} cores", *machine.cpu_quota) : "none");
  add("memory", fmt::format("{}, {} available", format_bytes(machine.memory_bytes),
                            format_bytes(machine.available_memory_bytes)));
  add("GPUs", joined(machine.gpus, "none found"));
  add("MPI", has_mpi() ? "built in" : "not built in");
  return text;
}

Json info_json(const Machine& machine) {
  return {{"version", version()},
          {"build_type", MM_BUILD_TYPE},
          {"compiler", kCompiler},
          {"backends", {"cpu"}},
          {"cpu", machine.cpu_model},
          {"isas", isa_names(machine)},
          {"hardware_threads", machine.num_hardware_threads},
          {"usable_threads", machine.num_usable_threads},
          {"cpu_quota", machine.cpu_quota ? Json(*machine.cpu_quota) : Json()},
          {"memory_bytes", machine.memory_bytes},
          {"available_memory_bytes", machine.available_memory_bytes},
          {"gpus", machine.gpus},
          {"mpi", has_mpi()}};
}

Exit info(OutputForm form) {
  const Machine machine = read_machine();
  if (form == OutputForm::json) {
    print_json(info_json(machine));
  } else {
    print_text(info_text(machine));
  }
  return Exit::ok;
}

/// The document is text whatever the form: it is made to be committed.
Exit memory_doc_text() {
  print_text(internal::memory_markdown());
  return Exit::ok;
}

enum class Topic : uint8_t { machine, memory_doc };

struct InfoOptions {
  Topic topic = Topic::machine;
  OutputForm form = OutputForm::text;
};

}  // namespace

void add_info(CommandLine& line) {
  const auto options = std::make_shared<InfoOptions>();
  Command command = line.add_command(
      "info", "Show the CPU, its instruction sets, GPUs, MPI and this build", kFooter,
      [options] { return options->topic == Topic::memory_doc ? memory_doc_text() : info(options->form); });
  command.add_flag("--memory-doc", "print docs/memory.md, made from the table of workspace fields, instead",
                   [options] { options->topic = Topic::memory_doc; });
  add_json(command, options->form);
}

}  // namespace megamoe::cli
