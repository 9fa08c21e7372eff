#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "check/synthetic.hpp"
#include "formats/bf16.hpp"
#include "reference/dense_expert.hpp"

namespace megamoe {
namespace {

ReferenceRows must(const Result<ReferenceRows>& rows) {
  EXPECT_TRUE(rows.ok()) << rows.status().to_string();
  return rows.ok() ? *rows : ReferenceRows{};
}

double bf16_rounded(double value) {
  return static_cast<double>(bf16_to_float(bf16_from_float(static_cast<float>(value))));
}

/// One expert, one token of ones, weights that make gate 1 and up 2: every step can be done by hand.
class HandMade : public ::testing::Test {
 protected:
  static constexpr uint32_t kHidden = 16;
  static constexpr uint32_t kIntermediate = 32;

  HandMade() {
    config_.shape = {.hidden = kHidden, .intermediate = kIntermediate, .num_experts = 1, .top_k = 1};
    const auto fill = [](std::vector<Bf16>& matrix, float value) {
      matrix.assign(kHidden * kIntermediate, {bf16_from_float(value)});
    };
    fill(gate_, 1.0F / 16);
    fill(up_, 2.0F / 16);
    fill(down_, 1.0F / 32);
    weights_.gate = view(gate_, kIntermediate, kHidden);
    weights_.up = view(up_, kIntermediate, kHidden);
    weights_.down = view(down_, kHidden, kIntermediate);
    input_.num_tokens = 1;
    input_.x = std::span<const Bf16>(x_);
    input_.topk_ids = std::span<const int32_t>(ids_);
    input_.topk_weights = router_weights_;
  }

  static WeightMatrix view(const std::vector<Bf16>& matrix, uint32_t num_rows, uint32_t num_cols) {
    WeightMatrix weight;
    weight.num_rows = num_rows;
    weight.num_cols = num_cols;
    weight.values = std::as_bytes(std::span(matrix));
    return weight;
  }

  double result() const {
    const ReferenceRows rows = must(reference_rows(config_, ArrayWeights({weights_}), input_));
    for (const double value : rows.y) EXPECT_EQ(value, rows.y[0]);
    return rows.y[0];
  }

  static double silu(double gate, double alpha = 1) { return gate / (1 + std::exp(-alpha * gate)); }

  LayerConfig config_;
  std::vector<Bf16> gate_, up_, down_;
  std::vector<Bf16> x_ = std::vector<Bf16>(kHidden, Bf16{0x3F80});
  std::vector<int32_t> ids_ = {0};
  std::vector<float> router_weights_ = {1.0F};
  std::vector<float> gate_bias_ = std::vector<float>(kIntermediate, 0.5F);
  std::vector<float> up_bias_ = std::vector<float>(kIntermediate, -0.25F);
  std::vector<float> down_bias_ = std::vector<float>(kHidden, 3.0F);
  ExpertWeights weights_;
  RankInput input_;
};

TEST_F(HandMade, Case05_GateIsActivatedAndUpIsNot) { EXPECT_EQ(result(), bf16_rounded(silu(1) * 2)); }

TEST_F(HandMade, Case07_RouterWeightIsAppliedVerbatimBeforeGemm2) {
  router_weights_[0] = -3.2F;
  EXPECT_EQ(result(), bf16_rounded(silu(1) * 2 * static_cast<double>(-3.2F)));
}

TEST_F(HandMade, Case07_RouterWeightIsAppliedVerbatimAtCombine) {
  router_weights_[0] = 7.5F;
  config_.activation.router_weight = RouterWeightPosition::at_combine;
  EXPECT_EQ(result(), 7.5 * bf16_rounded(silu(1) * 2));
}

TEST_F(HandMade, BiasesAndActivationOptionsTakeTheirPlaces) {
  weights_.gate_bias = gate_bias_;
  weights_.up_bias = up_bias_;
  weights_.down_bias = down_bias_;
  config_.activation.alpha = 1.702F;
  config_.activation.up_offset = 1.0F;
  EXPECT_NEAR(result(), bf16_rounded(silu(1.5, static_cast<double>(1.702F)) * 2.75 + 3), 1e-9);
}

TEST_F(HandMade, DownBiasCarriesTheRouterWeightInBothPositions) {
  weights_.down_bias = down_bias_;
  router_weights_[0] = 0.5F;
  EXPECT_EQ(result(), bf16_rounded(0.5 * silu(1) * 2 + 0.5 * 3));
  config_.activation.router_weight = RouterWeightPosition::at_combine;
  EXPECT_EQ(result(), 0.5 * bf16_rounded(silu(1) * 2 + 3));
}

TEST_F(HandMade, LimitClampsGateFromAboveAndUpFromBothSides) {
  config_.activation.limit = 0.5F;
  EXPECT_EQ(result(), bf16_rounded(silu(0.5) * 0.5));
  for (Bf16& value : x_) value = {0xBF80};  // -1: gate stays -1, up becomes -0.5
  EXPECT_EQ(result(), bf16_rounded(silu(-1) * -0.5));
}

TEST_F(HandMade, Case01_RepeatedExpertAddsUp) {
  config_.shape.top_k = 2;
  ids_ = {0, 0};
  router_weights_ = {1.0F, 0.25F};
  input_.topk_ids = std::span<const int32_t>(ids_);
  input_.topk_weights = router_weights_;
  EXPECT_EQ(result(), bf16_rounded(silu(1) * 2) + bf16_rounded(silu(1) * 2 * 0.25));
}

TEST_F(HandMade, Case03_NoExpertIsExactlyZero) {
  ids_[0] = -1;
  const ReferenceRows rows = must(reference_rows(config_, ArrayWeights({weights_}), input_));
  EXPECT_EQ(rows.magnitude[0], 0.0);
  for (const double value : rows.y) EXPECT_EQ(value, 0.0);
}

TEST_F(HandMade, SharedExpertHasWeightOneAndSeesEveryToken) {
  config_.shape.num_shared_experts = 1;
  ids_[0] = -1;
  const ArrayWeights weights({weights_}, {weights_});
  EXPECT_EQ(must(reference_rows(config_, weights, input_)).y[0], bf16_rounded(silu(1) * 2));
}

TEST_F(HandMade, RefusesWhatDoesNotFit) {
  ids_[0] = 1;
  EXPECT_FALSE(reference_rows(config_, ArrayWeights({weights_}), input_).ok());
  ids_[0] = 0;
  weights_.down.num_rows = 15;
  const Result<ReferenceRows> rows = reference_rows(config_, ArrayWeights({weights_}), input_);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().message(), "expert 0 down must be [16, 32] (got [15, 32]); pass the layer's own weights");
}

/// The layer in plain FP64, with no quantisation of activations at all.
std::vector<double> unquantised(const LayerConfig& config, const WeightSource& weights, const SyntheticBatch& batch) {
  const LayerShape& shape = config.shape;
  const RankInput input = batch.all();
  const auto x = std::get<std::span<const Bf16>>(input.x);
  std::vector<double> y(size_t{batch.num_tokens()} * shape.hidden);
  for (size_t slot = 0; slot < size_t{batch.num_tokens()} * shape.top_k; ++slot) {
    const size_t token = slot / shape.top_k;
    const auto expert =
        *reference::dense_expert(*weights.routed(static_cast<uint32_t>(batch.id(slot))), shape, "expert");
    for (size_t i = 0; i < shape.intermediate; ++i) {
      double gate = 0;
      double up = 0;
      for (size_t col = 0; col < shape.hidden; ++col) {
        const auto value = static_cast<double>(bf16_to_float(x[token * shape.hidden + col].bits));
        gate += value * expert.gate[i * shape.hidden + col];
        up += value * expert.up[i * shape.hidden + col];
      }
      const double h = static_cast<double>(input.topk_weights[slot]) * gate / (1 + std::exp(-gate)) * up;
      for (size_t col = 0; col < shape.hidden; ++col) {
        y[token * shape.hidden + col] += h * expert.down[col * shape.intermediate + i];
      }
    }
  }
  return y;
}

TEST(Reference, DiffersFromTheUnquantisedLayerByItsQuantisationOnly) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    for (const GateUpLayout layout : {GateUpLayout::separate, GateUpLayout::concatenated, GateUpLayout::interleaved}) {
      LayerConfig config;
      config.shape = {.hidden = 160, .intermediate = 96, .num_experts = 4, .top_k = 2};
      SyntheticWeightSpec weight_spec;
      weight_spec.shape = config.shape;
      weight_spec.routed.format = format;
      weight_spec.layout = layout;
      const SyntheticWeights weights(weight_spec);
      SyntheticInputSpec input_spec;
      input_spec.shape = config.shape;
      const SyntheticBatch batch(input_spec, 6);
      const ReferenceRows rows = must(reference_rows(config, weights, batch.all()));
      const std::vector<double> want = unquantised(config, weights, batch);
      for (size_t row = 0; row < rows.num_rows; ++row) {
        double distance = 0;
        for (size_t idx = row * rows.hidden; idx < (row + 1) * rows.hidden; ++idx) {
          distance += (rows.y[idx] - want[idx]) * (rows.y[idx] - want[idx]);
        }
        const double error = std::sqrt(distance) / rows.magnitude[row];
        EXPECT_GT(error, 0.005);
        EXPECT_LT(error, 0.08);
      }
    }
  }
}

TEST(Reference, Case11_NanScalePoisonsItsOwnColumnsOnly) {
  LayerConfig config;
  config.shape = {.hidden = 256, .intermediate = 128, .num_experts = 2, .top_k = 1};
  SyntheticWeightSpec weight_spec;
  weight_spec.shape = config.shape;
  weight_spec.routed = {.scale = ScaleType::e8m0};
  weight_spec.fill = WeightFill::scale_byte_255;
  SyntheticInputSpec input_spec;
  input_spec.shape = config.shape;
  input_spec.routing.ids = {0, 1};
  const ReferenceRows rows =
      must(reference_rows(config, SyntheticWeights(weight_spec), SyntheticBatch(input_spec, 2).all()));
  EXPECT_EQ(rows.poisoned[0], 1);
  EXPECT_EQ(rows.poisoned[1], 0);
  for (size_t col = 0; col < 256; ++col) EXPECT_EQ(std::isnan(rows.y[col]), col < 128) << col;
}

}  // namespace
}  // namespace megamoe
