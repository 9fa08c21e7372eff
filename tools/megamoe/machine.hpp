#pragma once

// What this machine and this build are, as `megamoe info` reports them.

#include <cstdint>
#include <string>
#include <vector>

#include "cpus.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

struct Machine {
  std::string cpu_model;
  std::vector<Isa> isas;  ///< that the CPU kernels can use here, widest first
  uint32_t num_hardware_threads = 0;
  Cpus cpus;
  bool can_place_memory = false;  ///< memory policies, which put weights near their threads, are known and allowed
  uint64_t memory_bytes = 0;
  uint64_t available_memory_bytes = 0;
  std::vector<std::string> gpus;  ///< as the NVIDIA kernel driver names them; empty = none found
};

Machine read_machine();

/// Bytes that can be allocated without swapping; 0 if the system does not say.
uint64_t available_memory_bytes();

}  // namespace megamoe::cli
