#pragma once

// The one list of small layers whose outputs were recorded on an H200, as hashes (data/h200-bits/hashes.json), and are
// reproduced without a GPU by the emulated kernels: `megamoe check --record-bits` and `--bits` run it on GPUs,
// tests/sm90_bits on the emulated machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::bits {

/// Consecutive tokens of the tiny real model's probe, through one of its layers.
struct ModelTokens {
  uint32_t layer_idx = 1;
  uint32_t first_token = 0;
};

/// How the emulated machine runs a case. A GPU takes its own tiles and all of its SMs; neither changes one bit.
struct EmulatedRun {
  uint32_t block_m = 128;   ///< 8 to 128
  uint32_t num_blocks = 2;  ///< of each rank
};

struct BitCase {
  std::string name;    ///< unique; "masked_e8m0/pingpong"
  std::string layer;   ///< "masked_e8m0": cases of one layer compute the same and must have the same hash
  LayerConfig config;  ///< shape, activation, max_tokens_per_rank and the strategy, which is forced
  std::vector<uint32_t> tokens_per_rank;  ///< [num_ranks]
  SyntheticWeightSpec weights;            ///< shape as in config
  SyntheticInputSpec input;               ///< shape as in config
  std::optional<ModelTokens> model;       ///< instead of synthetic weights and tokens
  EmulatedRun emulated;

  uint32_t num_tokens() const;
};

/// Every layer with every strategy, in a fixed order.
std::vector<BitCase> bit_cases();

}  // namespace megamoe::bits
