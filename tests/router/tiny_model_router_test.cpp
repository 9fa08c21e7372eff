// The router of the tiny trained model (DeepSeek-V3 kind) against the choices that were stored when it was exported.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../reference/tiny_model.hpp"
#include "formats/bf16.hpp"
#include "megamoe/router.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kHidden = 256;
constexpr uint32_t kNumExperts = 32;
constexpr uint32_t kTopK = 4;
constexpr uint32_t kNumTokens = 512;

/// Selection score of one expert in FP64, to tell near ties from mistakes.
double selection_score(const std::vector<Bf16>& x, const std::vector<float>& gate, const std::vector<float>& bias,
                       size_t token, size_t expert_idx) {
  double logit = 0;
  for (size_t col = 0; col < kHidden; ++col) {
    logit += static_cast<double>(bf16_to_float(x[token * kHidden + col].bits)) *
             static_cast<double>(gate[expert_idx * kHidden + col]);
  }
  return 1 / (1 + std::exp(-logit)) + static_cast<double>(bias[expert_idx]);
}

TEST(TinyModelRouter, ReproducesTheStoredIdsAndWeights) {
  const auto probe = SafeTensors::open(testing::tiny_model_file("probe.safetensors"));
  const auto model = SafeTensors::open(testing::tiny_model_file("fp8.safetensors"));
  ASSERT_TRUE(probe.ok()) << probe.status().to_string();
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  uint32_t num_swapped = 0;
  for (const std::string layer : {"1", "2"}) {
    const auto x = testing::tensor<Bf16>(*probe, "layers." + layer + ".x");
    const auto stored_ids = testing::tensor<int64_t>(*probe, "layers." + layer + ".topk_idx");
    const auto stored_weights = testing::tensor<float>(*probe, "layers." + layer + ".topk_weights");
    const auto gate = testing::tensor<float>(*model, "model.layers." + layer + ".mlp.gate.weight");
    const auto bias = testing::tensor<float>(*model, "model.layers." + layer + ".mlp.gate.e_score_correction_bias");
    const RouterConfig config{
        .kind = RouterKind::sigmoid_bias, .hidden = kHidden, .num_experts = kNumExperts, .top_k = kTopK, .scale = 2.5F};
    std::vector<int32_t> ids(size_t{kNumTokens} * kTopK);
    std::vector<float> weights(ids.size());
    const Status status = route(config, {gate, {}, bias}, x, kNumTokens, ids, weights);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t slot = 0; slot < ids.size(); ++slot) {
      const auto stored_id = static_cast<size_t>(stored_ids[slot]);
      if (ids[slot] == stored_ids[slot]) {
        ASSERT_NEAR(weights[slot], stored_weights[slot], 1e-5F) << "layer " << layer << " slot " << slot;
        continue;
      }
      // Another order of FP32 additions may swap experts whose scores differ by its rounding, and no others.
      ++num_swapped;
      const size_t token = slot / kTopK;
      const double gap = std::fabs(selection_score(x, gate, bias, token, static_cast<size_t>(ids[slot])) -
                                   selection_score(x, gate, bias, token, stored_id));
      ASSERT_LT(gap, 1e-6) << "layer " << layer << " slot " << slot;
    }
  }
  RecordProperty("num_swapped_near_ties", static_cast<int>(num_swapped));
  EXPECT_LE(num_swapped, 4U);
}

}  // namespace
}  // namespace megamoe
