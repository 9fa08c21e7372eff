#pragma once

// What a soak calls: layers and batches drawn from a seed.

#include <cstdint>
#include <string>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::check {

/// A layer, and the one that must give its bits.
struct SoakLayer {
  uint64_t seed = 0;
  LayerConfig tested;
  LayerConfig peer;  ///< same shape and activation; another strategy, on the CPU other threads and tiles
  uint32_t num_ranks = 1;
  uint32_t num_peer_ranks = 1;  ///< num_ranks or 1
  SyntheticWeightSpec weights;
  uint32_t num_calls = 1;

  /// "hidden 48, intermediate 80, 7 experts, top 3, 1 shared, 4 ranks, strategy pingpong".
  std::string description() const;
  /// "on chain with strategy auto and 1 ranks", to end a sentence about bits that differ.
  std::string peer_name() const;
};

struct SoakCall {
  std::vector<uint32_t> tokens_per_rank;  ///< [num_ranks], each at most max_tokens_per_rank
  SyntheticInputSpec input;
};

/// The same for the same seed on every backend but for tuning. The weights are such as every backend takes.
SoakLayer draw_soak_layer(Backend backend, uint64_t seed);
SoakCall draw_soak_call(const SoakLayer& layer, uint32_t call_idx);

}  // namespace megamoe::check
