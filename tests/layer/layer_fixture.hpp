#pragma once

// A small synthetic layer and its batch, and one way to run it over any number of ranks.

#include <gtest/gtest.h>

#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {

struct TestLayer {
  LayerConfig config;
  SyntheticWeightSpec weights;
  SyntheticInputSpec input;

  explicit TestLayer(const LayerShape& shape, WeightFormat format = WeightFormat::fp8_block) {
    config.shape = shape;
    config.max_tokens_per_rank = 128;
    weights.shape = shape;
    weights.routed.format = format;
    weights.shared.format = format;
    input.shape = shape;
  }
};

/// Shares of `num_tokens` over `num_ranks`, uneven on purpose when they do not divide.
inline std::vector<uint32_t> even_split(uint32_t num_tokens, uint32_t num_ranks) {
  std::vector<uint32_t> split;
  for (uint32_t r = 0; r < num_ranks; ++r) {
    split.push_back(num_tokens * (r + 1) / num_ranks - num_tokens * r / num_ranks);
  }
  return split;
}

/// Outputs of one call: `y` cut at the ranks' tokens.
inline std::vector<RankOutput> outputs_over(std::vector<Bf16>& y, const std::vector<RankInput>& inputs,
                                            uint32_t hidden) {
  std::vector<RankOutput> outputs;
  size_t first = 0;
  for (const RankInput& input : inputs) {
    const size_t count = size_t{input.num_tokens} * hidden;
    outputs.push_back({std::span<Bf16>(y).subspan(first, count), {}});
    first += count;
  }
  return outputs;
}

/// Creates the layer over `tokens_per_rank.size()` thread ranks and runs the batch once. A failure is reported and
/// gives an empty result.
inline std::vector<Bf16> run_over(const TestLayer& layer, const SyntheticBatch& batch,
                                  const std::vector<uint32_t>& tokens_per_rank) {
  auto group = Group::threads(static_cast<uint32_t>(tokens_per_rank.size()));
  EXPECT_TRUE(group.ok()) << group.status().to_string();
  auto moe = Layer::create(layer.config, SyntheticWeights(layer.weights), *group);
  if (!moe) {
    ADD_FAILURE() << moe.status().to_string();
    return {};
  }
  const std::vector<RankInput> inputs = batch.split(tokens_per_rank);
  std::vector<Bf16> y(size_t{batch.num_tokens()} * layer.config.shape.hidden);
  const Status status = moe->run(inputs, outputs_over(y, inputs, layer.config.shape.hidden));
  if (!status.ok()) {
    ADD_FAILURE() << status.to_string();
    return {};
  }
  return y;
}

}  // namespace megamoe
