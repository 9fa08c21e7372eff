#pragma once

// The table of planted faults: one kernel a row, which has the fault as `Version::planted` and lacks it as
// `Version::corrected`. The test demands that the first is found, on the right line, and that the second is clean.

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/ptx/tensor_map.hpp"
#include "emu/machine.hpp"
#include "emu/tensor_copy.hpp"

namespace megamoe::emu::testing {

enum class Version : uint8_t { planted, corrected };
/// How often the fault must show: in every interleaving, or in some.
enum class Shows : uint8_t { always, sometimes };

inline constexpr uint32_t kNumRanks = 2;
inline constexpr uint32_t kNumWords = 4096;

/// What every kernel finds on every rank.
struct Buffers {
  uint32_t* data[kNumRanks];      // [kNumWords], zeros
  uint32_t* blank[kNumRanks];     // [kNumWords], never written
  uint32_t* flags[kNumRanks];     // [64], zeros
  ptx::TensorMap map[kNumRanks];  // data as [64, 64] words, box [8, 8]
};

struct Fault {
  const char* name;
  FindingKind kind;
  const char* at;  ///< text of the source line that the finding must name; empty: any line of the kernel
  Shows shows;
  void (*kernel)(const Buffers& buffers, uint32_t rank, Version version);
  Launch launch;  ///< on every rank of `num_ranks`
  uint32_t num_ranks = 1;
  Races races = Races::ignore;  ///< what finds it
};

// By topic; each in a file of its own.
std::vector<Fault> barrier_faults();
std::vector<Fault> warp_faults();
std::vector<Fault> memory_faults();
std::vector<Fault> race_faults();
std::vector<Fault> copy_faults();

}  // namespace megamoe::emu::testing
