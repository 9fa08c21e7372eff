// The tiny trained model through the whole library: checkpoint, layer, ranks. Its stored outputs must be met in FP8 and
// in MXFP4 on any number of ranks, with the same bits on all of them.

#include <gtest/gtest.h>

#include <vector>

#include "../reference/tiny_model.hpp"
#include "megamoe/checkpoint.hpp"
#include "megamoe/megamoe.hpp"
#include "reference/compare_stored.hpp"
#include "reference/judge.hpp"
#include "reference/reference.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kNumTokens = 512;
constexpr uint32_t kHidden = 256;
constexpr uint32_t kTopK = 4;
constexpr uint32_t kNumJudged = 64;  // FP64 takes its time: a slice of the tokens is enough next to the bit comparison

/// Probe of one layer: what goes in, and what came out when the model was exported.
struct Probe {
  std::vector<Bf16> x;
  std::vector<int64_t> ids;
  std::vector<float> router_weights;
  std::vector<float> stored;

  RankInput slice(size_t first, size_t count) const {
    RankInput input;
    input.num_tokens = static_cast<uint32_t>(count);
    input.x = std::span(x).subspan(first * kHidden, count * kHidden);
    input.topk_ids = std::span(ids).subspan(first * kTopK, count * kTopK);
    input.topk_weights = std::span(router_weights).subspan(first * kTopK, count * kTopK);
    return input;
  }
};

struct Model {
  const char* file;
  const char* stored_outputs;
};

class TinyModelLayer : public ::testing::TestWithParam<Model> {
 protected:
  static Probe probe_of(uint32_t layer_idx) {
    const auto file = SafeTensors::open(testing::tiny_model_file("probe.safetensors"));
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    if (!file.ok()) return {};
    const std::string prefix = "layers." + std::to_string(layer_idx) + ".";
    return {.x = testing::tensor<Bf16>(*file, prefix + "x"),
            .ids = testing::tensor<int64_t>(*file, prefix + "topk_idx"),
            .router_weights = testing::tensor<float>(*file, prefix + "topk_weights"),
            .stored = testing::tensor<float>(*file, prefix + GetParam().stored_outputs)};
  }

  static LayerConfig config_of(const CheckpointLayer& weights, uint32_t num_ranks) {
    LayerConfig config;
    config.shape = weights.info().shape;
    config.shape.num_shared_experts = 0;  // the stored outputs are those of the routed experts
    config.activation = weights.info().activation;
    config.max_tokens_per_rank = (kNumTokens + num_ranks - 1) / num_ranks;
    return config;
  }

  /// Output [kNumTokens, kHidden] of `num_ranks` ranks.
  static std::vector<Bf16> run(const CheckpointLayer& weights, const Probe& probe, uint32_t num_ranks) {
    const auto group = Group::threads(num_ranks);
    auto layer = Layer::create(config_of(weights, num_ranks), weights, *group);
    EXPECT_TRUE(layer.ok()) << layer.status().to_string();
    std::vector<Bf16> y(size_t{kNumTokens} * kHidden, Bf16{0xFFFF});
    std::vector<RankInput> inputs;
    std::vector<RankOutput> outputs;
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      const size_t first = kNumTokens * rank / num_ranks;
      const size_t count = kNumTokens * (rank + 1) / num_ranks - first;
      inputs.push_back(probe.slice(first, count));
      outputs.push_back({.y = std::span(y).subspan(first * kHidden, count * kHidden), .local_expert_rows = {}});
    }
    const Status status = layer.ok() ? layer->run(inputs, outputs) : layer.status();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return y;
  }
};

TEST_P(TinyModelLayer, MeetsItsStoredOutputsWithTheSameBitsOnAnyNumberOfRanks) {
  const auto checkpoint = Checkpoint::open(testing::tiny_model_file(GetParam().file));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  for (const uint32_t layer_idx : {1U, 2U}) {
    SCOPED_TRACE(layer_idx);
    const auto weights = checkpoint->layer(layer_idx);
    ASSERT_TRUE(weights.ok()) << weights.status().to_string();
    const Probe probe = probe_of(layer_idx);
    ASSERT_EQ(probe.stored.size(), size_t{kNumTokens} * kHidden);
    const std::vector<Bf16> y = run(**weights, probe, 1);

    const StoredComparison comparison = compare_stored(y, probe.stored, kHidden);
    EXPECT_TRUE(comparison.ok()) << comparison.num_bad_rows << " bad rows; row " << comparison.worst_row
                                 << " is off by " << comparison.worst_error << ", median " << comparison.median_error;
    RecordProperty("worst_" + std::to_string(layer_idx), std::to_string(comparison.worst_error));
    RecordProperty("median_" + std::to_string(layer_idx), std::to_string(comparison.median_error));

    const auto reference = reference_rows(config_of(**weights, 1), **weights, probe.slice(0, kNumJudged));
    ASSERT_TRUE(reference.ok()) << reference.status().to_string();
    const Verdict verdict = judge(*reference, std::span(y).first(size_t{kNumJudged} * kHidden));
    EXPECT_TRUE(verdict.ok()) << verdict.message;

    for (const uint32_t num_ranks : {2U, 3U, 4U, 8U}) EXPECT_TRUE(run(**weights, probe, num_ranks) == y) << num_ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TinyModelLayer,
                         ::testing::Values(Model{"fp8.safetensors", "y_fp8"}, Model{"mxfp4.safetensors", "y_mxfp4"}),
                         [](const ::testing::TestParamInfo<Model>& instance) {
                           return std::string(instance.param.stored_outputs);
                         });

}  // namespace
}  // namespace megamoe
