#pragma once

// What a record of a benchmark says of the GPU that it ran on.

#include <cstdint>
#include <optional>
#include <string>

#include "megamoe/status.hpp"

namespace megamoe {

/// The GPU's clocks at one moment.
struct GpuClocks {
  uint32_t sm_mhz = 0;
  uint32_t memory_mhz = 0;
};

/// The first Hopper GPU as the driver's management library (NVML) tells it.
struct GpuState {
  std::string name;    ///< "NVIDIA H200"
  std::string driver;  ///< "580.159.03"
  std::string cuda;    ///< newest CUDA that the driver runs: "13.0"
  uint32_t max_sm_mhz = 0;
  GpuClocks clocks;  ///< now
  double power_limit_watts = 0;
};

/// Errors: unsupported, saying what is missing: CUDA in the build, a GPU, the management library; whatever it reports.
Result<GpuState> read_gpu_state();

}  // namespace megamoe
