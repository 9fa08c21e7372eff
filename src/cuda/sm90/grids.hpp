#pragma once

// What nvcc compiles for the launcher: grid functions, by rank count. Each takes RankArguments<kNumRanks> and the
// number of blocks per rank; a grid holds the blocks of its ranks, rank by rank.

#include <cstdint>

#include "cuda/sm90/arguments.hpp"
#include "cuda/sm90/gemm_plan.hpp"

namespace megamoe::sm90 {

/// gemms: gemm1 and gemm2 in one, wave by wave. meet: all ranks wait for each other, nothing else; what follows begins
/// everywhere at the same time.
enum class Kernel : uint32_t { dispatch, gemm1, gemm2, gemms, combine, meet };

/// One grid: a kernel, and for those that multiply, how.
struct GridKind {
  Kernel kernel = Kernel::meet;
  Strategy strategy = Strategy::cooperative;

  // Implicit: most kernels come in one kind.
  constexpr GridKind(Kernel of, Strategy how = Strategy::cooperative) : kernel(of), strategy(how) {}
};

/// Ranks that one grid can hold: their arguments travel by value, as kernel parameters.
inline constexpr uint32_t kMaxVirtualRanks = 8;

/// Threads of a block of dispatch, combine or meet, at most: more would leave each too few registers for the loads that
/// it keeps under way.
inline constexpr uint32_t kMaxPlainThreads = 512;

/// What gemm1 and gemm2 as grids are made of.
constexpr GemmConfig chain_config(Strategy strategy, Phases phases) {
  return {.strategy = strategy, .phases = phases, .max_block_m = strategy == Strategy::pingpong ? 64U : 128U};
}

template <uint32_t kNumRanks>
struct RankArguments {
  Arguments ranks[kNumRanks];
};

// kNumRanks: 1 or kMaxVirtualRanks.
template <uint32_t kNumRanks>
const void* dispatch_grid_function();
template <uint32_t kNumRanks>
const void* combine_grid_function();
template <uint32_t kNumRanks>
const void* meet_grid_function();
/// Each strategy is a source file of its own: they take long to compile.
template <Strategy kStrategy, uint32_t kNumRanks>
const void* gemm_grid_function(Phases phases);

}  // namespace megamoe::sm90
