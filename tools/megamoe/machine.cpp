#include "machine.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cpu/kernels/kernels.hpp"

namespace megamoe::cli {
namespace {

namespace fs = std::filesystem;

/// The value of the first line "key : value" of a /proc file; empty if there is none.
std::string proc_value(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.rfind(key, 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

/// A value of /proc/meminfo, which counts in units of 1024 bytes.
uint64_t meminfo_bytes(std::string_view key) {
  uint64_t kibibytes = 0;
  std::istringstream(proc_value("/proc/meminfo", key)) >> kibibytes;
  return kibibytes * 1024;
}

std::vector<std::string> nvidia_gpus() {
  std::vector<std::string> gpus;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", failure)) {
    const std::string model = proc_value(entry.path() / "information", "Model");
    gpus.push_back(model.empty() ? entry.path().filename().string() : model);
  }
  return gpus;
}

}  // namespace

uint64_t available_memory_bytes() { return meminfo_bytes("MemAvailable"); }

Machine read_machine() {
  const auto isas = cpu::available_isas();
  return {.cpu_model = proc_value("/proc/cpuinfo", "model name"),
          .isas = {isas.begin(), isas.end()},
          .num_hardware_threads = std::thread::hardware_concurrency(),
          .cpus = read_cpus(),
          .can_place_memory = topology::can_place_memory(),
          .memory_bytes = meminfo_bytes("MemTotal"),
          .available_memory_bytes = available_memory_bytes(),
          .gpus = nvidia_gpus()};
}

}  // namespace megamoe::cli
