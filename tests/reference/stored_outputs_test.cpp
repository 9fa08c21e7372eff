#include <gtest/gtest.h>

#include <cmath>

#include "formats/bf16.hpp"
#include "reference/compare_stored.hpp"
#include "reference/reference.hpp"
#include "tiny_model.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kNumExperts = 32;
constexpr uint32_t kNumTokens = 64;  // of 512: enough for a median, and quick without optimisation too

/// The routed experts of one layer, straight from the file's bytes.
class TinyWeights final : public WeightSource {
 public:
  TinyWeights(const SafeTensors& file, WeightFormat format, int layer) : file_(&file), format_(format), layer_(layer) {}

  Result<ExpertWeights> routed(uint32_t expert_idx) const override {
    const std::string fp8 =
        "model.layers." + std::to_string(layer_) + ".mlp.experts." + std::to_string(expert_idx) + ".";
    const std::string fp4 = "layers." + std::to_string(layer_) + ".ffn.experts." + std::to_string(expert_idx) + ".";
    const bool is_fp8 = format_ == WeightFormat::fp8_block;
    ExpertWeights weights;
    weights.gate = matrix(is_fp8 ? fp8 + "gate_proj" : fp4 + "w1", 128, 256, scales_[0]);
    weights.up = matrix(is_fp8 ? fp8 + "up_proj" : fp4 + "w3", 128, 256, scales_[1]);
    weights.down = matrix(is_fp8 ? fp8 + "down_proj" : fp4 + "w2", 256, 128, scales_[2]);
    return weights;
  }

 private:
  struct Scales {
    std::vector<float> f32;
    std::vector<E8m0> e8m0;
  };

  WeightMatrix matrix(const std::string& name, uint32_t num_rows, uint32_t num_cols, Scales& scales) const {
    WeightMatrix matrix;
    matrix.format = format_;
    matrix.num_rows = num_rows;
    matrix.num_cols = num_cols;
    if (const TensorView* view = file_->find(name + ".weight")) matrix.values = view->bytes;
    if (format_ == WeightFormat::fp8_block) {
      matrix.block_rows = matrix.block_cols = 128;
      scales.f32 = testing::tensor<float>(*file_, name + ".weight_scale_inv");
      matrix.scales = std::span<const float>(scales.f32);
    } else {
      matrix.block_rows = 1;
      matrix.block_cols = kMxfp4Group;
      scales.e8m0 = testing::tensor<E8m0>(*file_, name + ".scale");
      matrix.scales = std::span<const E8m0>(scales.e8m0);
    }
    return matrix;
  }

  const SafeTensors* file_;
  WeightFormat format_;
  int layer_;
  mutable Scales scales_[3];
};

void expect_stored_outputs(WeightFormat format, const std::string& weights_file, const std::string& output_name) {
  const auto probe = SafeTensors::open(testing::tiny_model_file("probe.safetensors"));
  const auto file = SafeTensors::open(testing::tiny_model_file(weights_file));
  ASSERT_TRUE(probe.ok()) << probe.status().to_string();
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  for (const int layer : {1, 2}) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    const auto x = testing::tensor<Bf16>(*probe, prefix + "x");
    const auto ids = testing::tensor<int64_t>(*probe, prefix + "topk_idx");
    const auto router_weights = testing::tensor<float>(*probe, prefix + "topk_weights");
    const auto stored = testing::tensor<float>(*probe, prefix + output_name);
    LayerConfig config;
    config.shape = {.hidden = 256, .intermediate = 128, .num_experts = kNumExperts, .top_k = 4};
    RankInput input;
    input.num_tokens = kNumTokens;
    input.x = std::span(x).first(size_t{kNumTokens} * 256);
    input.topk_ids = std::span(ids).first(size_t{kNumTokens} * 4);
    input.topk_weights = std::span(router_weights).first(size_t{kNumTokens} * 4);
    const auto rows = reference_rows(config, TinyWeights(*file, format, layer), input);
    ASSERT_TRUE(rows.ok()) << rows.status().to_string();
    std::vector<Bf16> y;
    for (const double value : rows->y) y.push_back({bf16_from_float(static_cast<float>(value))});
    const StoredComparison comparison = compare_stored(y, std::span(stored).first(y.size()), 256);
    EXPECT_TRUE(comparison.ok()) << "layer " << layer << ": worst row " << comparison.worst_row << " is off by "
                                 << comparison.worst_error << ", median " << comparison.median_error;
    ::testing::Test::RecordProperty("median_layer" + std::to_string(layer), std::to_string(comparison.median_error));
    ::testing::Test::RecordProperty("worst_layer" + std::to_string(layer), std::to_string(comparison.worst_error));
  }
}

TEST(StoredOutputs, ReferenceMeetsTheTinyModelInFp8) {
  expect_stored_outputs(WeightFormat::fp8_block, "fp8.safetensors", "y_fp8");
}

TEST(StoredOutputs, ReferenceMeetsTheTinyModelInMxfp4) {
  expect_stored_outputs(WeightFormat::mxfp4, "mxfp4.safetensors", "y_mxfp4");
}

}  // namespace
}  // namespace megamoe
