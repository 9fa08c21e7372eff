// megamoe info: what the command was built with and what it finds on this machine.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "host/describe.hpp"
#include "host/sm90_backend.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "processes.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Backends are those that `--backend` of the other subcommands can take here. The CPU quota is in CPUs' worth of time per
period, the smallest that a control group of this process grants; threads beyond it gain nothing.

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

/// What `--backend` can take here.
std::vector<std::string> backend_names() {
  std::vector<std::string> names{"cpu"};
  if (internal::find_hopper_gpus().ok()) names.insert(names.end(), {"sm90", "chain"});
  return names;
}

std::string info_text(const Machine& machine) {
  std::string text;
  const auto add = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("{:<14} {}\n", what, value);
  };
  add("megamoe", std::string(version()));
  add("build", fmt::format("{}, {}", MM_BUILD_TYPE, kCompiler));
  add("backends", joined(backend_names(), "none"));
  add("CPU", machine.cpu_model.empty() ? "unknown" : machine.cpu_model);
  add("ISAs", joined(isa_names(machine), "none"));
  add("CPUs", fmt::format("{} online; {}", machine.num_hardware_threads, cpus_text(machine.cpus)));
  add("threads", fmt::format("{} by default, over all ranks: one per CPU of the mask, or the quota rounded up if less",
                             machine.cpus.num_default_threads()));
  add("NUMA memory", machine.can_place_memory ? "can be placed" : "goes where it is first touched");
  add("memory", fmt::format("{}, {} available", format_bytes(machine.memory_bytes),
                            format_bytes(machine.available_memory_bytes)));
  add("GPUs", joined(machine.gpus, "none found"));
  add("MPI", has_mpi() ? "built in" : "not built in");
  return text;
}

Json info_json(const Machine& machine) {
  Json json = {{"version", version()},
               {"build_type", MM_BUILD_TYPE},
               {"compiler", kCompiler},
               {"backends", backend_names()},
               {"cpu", machine.cpu_model},
               {"isas", isa_names(machine)},
               {"hardware_threads", machine.num_hardware_threads},
               {"can_place_memory", machine.can_place_memory},
               {"memory_bytes", machine.memory_bytes},
               {"available_memory_bytes", machine.available_memory_bytes},
               {"gpus", machine.gpus},
               {"mpi", has_mpi()}};
  json.update(cpus_json(machine.cpus));
  return json;
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
