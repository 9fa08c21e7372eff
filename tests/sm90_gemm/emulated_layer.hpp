#pragma once

// A whole layer on the emulated machine: dispatch, gemm1, gemm2 and combine as kernels of every rank.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "check/synthetic.hpp"
#include "cuda/sm90/gemm_plan.hpp"
#include "emulated_ranks.hpp"
#include "reference/reference.hpp"

namespace megamoe::sm90::testing {

/// What is computed: shape and activation of `config`, weights, and one batch of tokens. Outputs depend on nothing
/// else.
struct LayerJob {
  LayerConfig config;
  const WeightSource& weights;    ///< outlives the job
  std::vector<RankInput> inputs;  ///< [num_ranks]
};

/// A job over synthetic weights and tokens.
struct LayerCase {
  const char* name = "";
  LayerShape shape = {};
  std::vector<uint32_t> num_tokens = {};  ///< of each rank
  ActivationOptions activation = {};
  RoutingSpec routing = {};
  Biases biases = Biases::none;
  ScaleType scale = ScaleType::f32;
  GateUpLayout layout = GateUpLayout::separate;
  InputType input = InputType::bf16;
  std::vector<SpecialToken> specials = {};

  uint32_t num_all_tokens() const;
};

/// Which kernels compute it.
enum class Kernels : uint8_t { chain, gemms, fused };

/// The kernels that a public strategy names.
Strategy kernel_strategy(megamoe::Strategy strategy);

/// How it is computed.
struct RunSpec {
  Strategy strategy = Strategy::cooperative;
  std::vector<uint32_t> num_tokens = {};  ///< of each rank, for a LayerCase; their sum is the case's
  uint32_t block_m = 32;
  uint32_t num_blocks = 2;  ///< of each rank
  emu::Options options = {};
  Kernels kernels = Kernels::chain;
};

/// The batch's output, rank after rank, [num_all_tokens, hidden]; gtest failures for findings of the emulator.
std::vector<Bf16> run_layer(const LayerJob& job, const RunSpec& spec);
std::vector<Bf16> run_layer(const LayerCase& layer_case, const RunSpec& spec);

/// The same without gemm1, so that gemm2 waits in vain: the first rank's fault record.
flow::FaultRecord run_without_gemm1(const LayerCase& layer_case, const RunSpec& spec);

/// What the reference says about it.
ReferenceRows reference_of(const LayerCase& layer_case);

}  // namespace megamoe::sm90::testing
