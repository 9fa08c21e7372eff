#include "check/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "reference/dense_expert.hpp"

namespace megamoe {
namespace {

constexpr LayerShape kShape{.hidden = 256, .intermediate = 128, .num_experts = 16, .top_k = 4, .num_shared_experts = 1};

SyntheticWeightSpec weight_spec(MatrixFormat format) {
  SyntheticWeightSpec spec;
  spec.shape = kShape;
  spec.routed = spec.shared = format;
  return spec;
}

std::vector<std::byte> bytes_of(const ExpertWeights& weights) {
  return {weights.down.values.begin(), weights.down.values.end()};
}

double sigma(const std::vector<double>& values) {
  double square_sum = 0;
  for (const double value : values) square_sum += value * value;
  return std::sqrt(square_sum / static_cast<double>(values.size()));
}

TEST(SyntheticWeights, AnExpertDependsOnSeedAndNumberAlone) {
  const SyntheticWeights a(weight_spec({}));
  const SyntheticWeights b(weight_spec({}));
  const std::vector<std::byte> third = bytes_of(*a.routed(3));
  EXPECT_NE(bytes_of(*a.routed(4)), third);
  EXPECT_NE(bytes_of(*a.shared(0)), third);
  EXPECT_EQ(bytes_of(*b.routed(3)), third);
  SyntheticWeightSpec other = weight_spec({});
  other.seed = 2;
  EXPECT_NE(bytes_of(*SyntheticWeights(other).routed(3)), third);
}

TEST(SyntheticWeights, HaveUsefulMagnitudesInEveryFormat) {
  for (const MatrixFormat& format :
       {MatrixFormat{}, MatrixFormat{.scale = ScaleType::e8m0}, MatrixFormat{.block_rows = 48, .block_cols = 16},
        MatrixFormat{.format = WeightFormat::mxfp4}, MatrixFormat{.format = WeightFormat::bf16}}) {
    const SyntheticWeights weights(weight_spec(format));
    const Result<reference::DenseExpert> dense = reference::dense_expert(*weights.routed(0), kShape, "expert 0");
    ASSERT_TRUE(dense.ok()) << dense.status().to_string();
    EXPECT_GT(sigma(dense->gate), 0.2 / 16);
    EXPECT_LT(sigma(dense->gate), 2.0 / 16);
    EXPECT_GT(sigma(dense->down), 0.2 * 2 / std::sqrt(128));
    EXPECT_LT(sigma(dense->down), 2.0 * 2 / std::sqrt(128));
  }
}

TEST(SyntheticWeights, RoutedExpertBytesIsWhatTheViewsHold) {
  for (const GateUpLayout layout : {GateUpLayout::separate, GateUpLayout::interleaved}) {
    for (const MatrixFormat& format :
         {MatrixFormat{.block_rows = 48}, MatrixFormat{.scale = ScaleType::e8m0},
          MatrixFormat{.format = WeightFormat::mxfp4}, MatrixFormat{.format = WeightFormat::bf16}}) {
      SyntheticWeightSpec spec = weight_spec(format);
      spec.layout = layout;
      const SyntheticWeights weights(spec);
      const ExpertWeights expert = *weights.routed(0);
      uint64_t num_bytes = 0;
      for (const WeightMatrix* matrix : {&expert.gate, &expert.up, &expert.gate_up, &expert.down}) {
        num_bytes += matrix->values.size();
        num_bytes += std::visit([](auto scales) { return scales.size_bytes(); }, matrix->scales);
      }
      EXPECT_EQ(weights.routed_expert_bytes(), num_bytes);
    }
  }
}

TEST(SyntheticWeights, Case05_FillMakesGateOneAndUpTwo) {
  for (const GateUpLayout layout : {GateUpLayout::separate, GateUpLayout::concatenated, GateUpLayout::interleaved}) {
    for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
      SyntheticWeightSpec spec = weight_spec({.format = format});
      spec.layout = layout;
      spec.fill = WeightFill::gate_one_up_two;
      const SyntheticWeights weights(spec);
      const auto dense = reference::dense_expert(*weights.routed(0), kShape, "expert 0");
      ASSERT_TRUE(dense.ok());
      const double unit = dense->gate[0];
      EXPECT_GT(unit, 0);
      EXPECT_TRUE(std::all_of(dense->gate.begin(), dense->gate.end(), [&](double value) { return value == unit; }));
      EXPECT_TRUE(std::all_of(dense->up.begin(), dense->up.end(), [&](double value) { return value == 2 * unit; }));
    }
  }
}

TEST(SyntheticWeights, Case04_NeighbouringExpertsHoldDifferentConstants) {
  SyntheticWeightSpec spec = weight_spec({});
  spec.fill = WeightFill::constant_per_expert;
  const SyntheticWeights weights(spec);
  std::set<double> values;
  for (uint32_t expert_idx = 0; expert_idx < 3; ++expert_idx) {
    const auto dense = reference::dense_expert(*weights.routed(expert_idx), kShape, "expert");
    ASSERT_TRUE(dense.ok());
    EXPECT_EQ(std::set<double>(dense->down.begin(), dense->down.end()).size(), 1U);
    values.insert(dense->down[0]);
  }
  EXPECT_EQ(values.size(), 3U);
}

TEST(SyntheticWeights, Case11_ScaleBytesAreThere) {
  const std::pair<WeightFill, int> bytes[] = {{WeightFill::scale_byte_0, 0},
                                              {WeightFill::scale_byte_1, 1},
                                              {WeightFill::scale_byte_254, 254},
                                              {WeightFill::scale_byte_255, 255}};
  for (const auto& [fill, byte] : bytes) {
    SyntheticWeightSpec spec = weight_spec({.scale = ScaleType::e8m0});
    spec.fill = fill;
    const SyntheticWeights weights(spec);
    const ExpertWeights expert = *weights.routed(0);
    const WeightMatrix& matrix = byte == 255 ? expert.down : expert.gate;
    EXPECT_EQ(std::get<std::span<const E8m0>>(matrix.scales)[0].bits, byte);
  }
}

TEST(SyntheticWeights, RefusesExpertsThatAreNotThere) {
  const SyntheticWeights weights(weight_spec({}));
  EXPECT_EQ(weights.routed(16).status().message(),
            "expert_idx must be below 16 (got 16); ask for an expert of the layer");
  EXPECT_FALSE(weights.shared(1).ok());
}

SyntheticInputSpec input_spec() {
  SyntheticInputSpec spec;
  spec.shape = kShape;
  return spec;
}

std::vector<uint32_t> loads(const SyntheticInputSpec& spec, uint32_t num_tokens) {
  const SyntheticBatch batch(spec, num_tokens);
  std::vector<uint32_t> rows(kShape.num_experts);
  for (uint64_t token = 0; token < num_tokens; ++token) {
    std::set<int64_t> ids;
    for (uint64_t k = 0; k < kShape.top_k; ++k) {
      ids.insert(batch.id(token * kShape.top_k + k));
      ++rows[static_cast<size_t>(batch.id(token * kShape.top_k + k))];
    }
    EXPECT_EQ(ids.size(), kShape.top_k) << "token " << token << " visits an expert twice";
  }
  return rows;
}

TEST(SyntheticBatch, UniformRoutingIsBalancedAndZipfIsNot) {
  SyntheticInputSpec spec = input_spec();
  const std::vector<uint32_t> uniform = loads(spec, 1000);
  EXPECT_GT(*std::min_element(uniform.begin(), uniform.end()), 180U);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 320U);
  spec.routing = *parse_routing("zipf:1.2");
  const std::vector<uint32_t> zipf = loads(spec, 1000);
  EXPECT_GT(*std::max_element(zipf.begin(), zipf.end()), 700U);
  EXPECT_LT(*std::min_element(zipf.begin(), zipf.end()), 150U);
}

TEST(SyntheticBatch, MaskAndFixedRoutings) {
  SyntheticInputSpec spec = input_spec();
  spec.routing = *parse_routing("masked:0.5");
  const SyntheticBatch masked(spec, 500);
  uint32_t num_masked = 0;
  for (uint64_t slot = 0; slot < 2000; ++slot) num_masked += masked.id(slot) == -1 ? 1 : 0;
  EXPECT_GT(num_masked, 900U);
  EXPECT_LT(num_masked, 1100U);

  spec.routing = *parse_routing("one:7");
  const SyntheticBatch one(spec, 5);
  for (uint64_t slot = 0; slot < 20; ++slot) EXPECT_EQ(one.id(slot), 7);

  spec.routing = *parse_routing("first:4");
  const SyntheticBatch first(spec, 50);
  for (uint64_t slot = 0; slot < 200; ++slot) EXPECT_LT(first.id(slot), 4);
}

TEST(SyntheticBatch, ATokenDoesNotDependOnTheOthers) {
  const SyntheticBatch small(input_spec(), 3);
  const SyntheticBatch large(input_spec(), 30);
  const auto small_x = std::get<std::span<const Bf16>>(small.all().x);
  const auto large_x = std::get<std::span<const Bf16>>(large.slice(0, 3).x);
  EXPECT_TRUE(std::equal(small_x.begin(), small_x.end(), large_x.begin(), large_x.end()));
  for (uint64_t slot = 0; slot < 12; ++slot) EXPECT_EQ(small.id(slot), large.id(slot));
}

TEST(SyntheticBatch, SplitGivesConsecutiveSlices) {
  SyntheticInputSpec spec = input_spec();
  spec.type = InputType::fp8_f32_scales;
  spec.ids = IdType::int64;
  const SyntheticBatch batch(spec, 7);
  const std::vector<RankInput> inputs = batch.split({3, 0, 4});
  ASSERT_EQ(inputs.size(), 3U);
  EXPECT_EQ(inputs[1].num_tokens, 0U);
  const auto& last = std::get<Fp8Activations>(inputs[2].x);
  EXPECT_EQ(last.values.size(), 4U * 256);
  EXPECT_EQ(std::get<std::span<const float>>(last.scales).size(), 4U * 2);
  EXPECT_EQ(std::get<std::span<const int64_t>>(inputs[2].topk_ids)[0], batch.id(12));
  EXPECT_EQ(inputs[2].topk_weights.size(), 16U);
}

TEST(SyntheticBatch, SpecialTokensHoldTheirValues) {
  SyntheticInputSpec spec = input_spec();
  spec.specials = {{0, SpecialValue::zero_row}, {1, SpecialValue::zero_group}, {2, SpecialValue::nan},
                   {3, SpecialValue::inf},      {4, SpecialValue::tiny},       {5, SpecialValue::huge}};
  const SyntheticBatch batch(spec, 7);
  const auto x = std::get<std::span<const Bf16>>(batch.all().x);
  const auto at = [&](size_t token, size_t col) { return bf16_to_float(x[token * 256 + col].bits); };
  for (size_t col = 0; col < 256; ++col) {
    EXPECT_EQ(at(0, col), 0.0F);
    EXPECT_EQ(at(1, col) == 0.0F, col < 128);
    EXPECT_LT(std::fabs(at(4, col)), 0x1p-126F);
  }
  EXPECT_TRUE(std::isnan(at(2, 5)));
  EXPECT_TRUE(std::isinf(at(3, 5)));
  EXPECT_GT(std::fabs(at(5, 0)), 1000.0F);
}

TEST(SyntheticBatch, Fp8InputsCarryNanAsCodeAndAsScale) {
  SyntheticInputSpec spec = input_spec();
  spec.type = InputType::fp8_e8m0_scales;
  spec.specials = {{0, SpecialValue::nan}, {1, SpecialValue::nan_scale}};
  const SyntheticBatch batch(spec, 2);
  const RankInput input = batch.all();
  const auto& x = std::get<Fp8Activations>(input.x);
  EXPECT_TRUE(std::isnan(e4m3_to_float(x.values[5].bits)));
  EXPECT_EQ(std::get<std::span<const E8m0>>(x.scales)[2].bits, 255);
}

TEST(ParseRouting, ReadsEveryFormAndRefusesTheRest) {
  EXPECT_EQ(parse_routing("uniform")->kind, RoutingKind::uniform);
  EXPECT_EQ(parse_routing("zipf:1.5")->zipf_exponent, 1.5);
  EXPECT_EQ(parse_routing("one:3")->expert, 3U);
  EXPECT_EQ(parse_routing("first:8")->kind, RoutingKind::first_experts);
  EXPECT_EQ(parse_routing("masked:0.25")->masked_fraction, 0.25);
  for (const char* text :
       {"", "zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:1.5x", "one:-1", "first:0", "masked:2", "Uniform"}) {
    const auto routing = parse_routing(text);
    ASSERT_FALSE(routing.ok()) << text;
    EXPECT_NE(routing.status().message().find("routing must be uniform, zipf:EXPONENT"), std::string::npos);
    EXPECT_NE(routing.status().message().find(std::string("(got ") + text + ")"), std::string::npos);
  }
}

}  // namespace
}  // namespace megamoe
