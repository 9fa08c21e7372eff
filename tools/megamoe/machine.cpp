#include "machine.hpp"

#include <sched.h>

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

uint32_t num_usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return std::thread::hardware_concurrency();
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

/// Control groups, version 2 and then version 1, as seen from inside a container.
std::optional<double> cpu_quota() {
  double quota = -1;
  double period = 0;
  std::ifstream version2("/sys/fs/cgroup/cpu.max");
  if (version2) {
    version2 >> quota >> period;
  } else {
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
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
          .num_usable_threads = num_usable_threads(),
          .cpu_quota = cpu_quota(),
          .memory_bytes = meminfo_bytes("MemTotal"),
          .available_memory_bytes = available_memory_bytes(),
          .gpus = nvidia_gpus()};
}

}  // namespace megamoe::cli
