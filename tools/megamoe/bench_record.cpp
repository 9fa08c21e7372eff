#include "bench_record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "check/gpu_state.hpp"
#include "formats/temporary_file.hpp"
#include "host/errors.hpp"
#include "machine.hpp"

namespace megamoe::cli {
namespace {

/// The words of this process's command line.
std::vector<std::string> command_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

Json gpu_json(const Result<GpuState>& gpu) {
  if (!gpu) return {{"unknown", gpu.status().message()}};
  return {{"name", gpu->name},
          {"driver", gpu->driver},
          {"cuda", gpu->cuda},
          {"max_sm_clock_mhz", gpu->max_sm_mhz},
          {"sm_clock_mhz", gpu->clocks.sm_mhz},
          {"memory_clock_mhz", gpu->clocks.memory_mhz},
          {"power_limit_watts", gpu->power_limit_watts}};
}

Json machine_json() {
  const Machine machine = read_machine();
  return {{"cpu", machine.cpu_model},
          {"hardware_threads", machine.num_hardware_threads},
          {"memory_bytes", machine.memory_bytes},
          {"gpus", machine.gpus},
          {"gpu", gpu_json(read_gpu_state())}};
}

}  // namespace

Status check_record_path(const std::string& path) { return TemporaryFile(path).create(); }

Status write_record(const std::string& path, const std::optional<Ceilings>& ceilings, const Json& rows) {
  const Json record = {{"kind", "megamoe bench"},
                       {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                       {"command", command_words()},
                       {"version", version()},
                       {"build_type", MM_BUILD_TYPE},
                       {"machine", machine_json()},
                       {"ceilings", ceilings ? ceilings_json(*ceilings) : Json()},
                       {"rows", rows}};
  // Paths in the command may hold bytes that are not UTF-8.
  const std::string text = record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  TemporaryFile file(path);
  MM_RETURN_IF_ERROR(file.create());
  MM_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace megamoe::cli
