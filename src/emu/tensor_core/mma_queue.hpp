#pragma once

// What one warpgroup's wgmma instructions have under way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/ptx/wgmma_shape.hpp"
#include "emu/findings.hpp"
#include "emu/tensor_core/gather.hpp"

namespace megamoe::emu {

using LaneRegisters = std::array<float*, ptx::kWarpgroupLanes>;  // each lane's first accumulator register

/// An accumulator in flight: one instruction, or a chain of them on the same registers.
struct FlyingAccumulator {
  uint32_t n = 0;
  LaneRegisters registers{};
  std::vector<uint32_t> d;  ///< [64, n] FP32 bits, as they will be
  uint32_t last_group = 0;
  Where where;
};

/// Shared memory that an instruction in flight reads.
struct FlyingOperands {
  uint32_t group = 0;
  std::vector<std::pair<const std::byte*, uint32_t>> ranges;  ///< first byte and size, disjoint
};

struct MmaQueue {
  bool is_fenced = false;   ///< since registers were last handed back
  uint32_t open_group = 0;  ///< groups committed so far: the number of the one that collects now
  uint32_t agent = 0;  ///< clock index that stands for reads of operands; 0 before the first. Group g has clock g + 1.
  std::vector<FlyingAccumulator> accumulators;
  std::vector<FlyingOperands> operands;
  // Scratch of one instruction.
  tensor_core::OperandRows a;
  tensor_core::OperandRows b;
  tensor_core::OperandRows states;
};

}  // namespace megamoe::emu
