// quantise_row, activate_group, store_partial and combine_row against plain loops over the flow rules.

#include <algorithm>
#include <cmath>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "kernels_testing.hpp"

namespace megamoe::cpu {
namespace {

using flow::RouterWeightRule;
using flow::ScaleRule;

/// One group's codes and scale by the flow rules, value by value.
struct Quantised {
  std::vector<uint8_t> codes;
  float scale = 0.0F;
};

Quantised quantised(const std::vector<float>& values, ScaleRule rule) {
  float amax = 0.0F;
  for (const float value : values) amax = std::max(amax, flow::amax_term(value));
  Quantised result;
  result.scale = flow::group_scale(amax, rule);
  for (const float value : values) result.codes.push_back(flow::quantise(value, rcp_rn(result.scale)));
  return result;
}

class RowsTest : public KernelsTest {
 protected:
  void expect_quantised(const std::vector<uint16_t>& x, ScaleRule rule) {
    const auto hidden = static_cast<uint32_t>(x.size());
    const uint32_t num_groups = (hidden + kActivationGroup - 1) / kActivationGroup;
    std::vector<uint8_t> codes(hidden + 1, 0xA5);
    std::vector<float> scales(num_groups + 1, 77.0F);
    kernels_.quantise_row(x.data(), hidden, rule, codes.data(), scales.data());
    for (uint32_t group = 0; group < num_groups; ++group) {
      const uint32_t begin = group * kActivationGroup;
      std::vector<float> values;
      for (uint32_t i = begin; i < std::min(hidden, begin + kActivationGroup); ++i) {
        values.push_back(bf16_to_float(x[i]));
      }
      const Quantised wanted = quantised(values, rule);
      ASSERT_TRUE(same_bits(scales[group], wanted.scale)) << scales[group] << " wanted " << wanted.scale;
      for (uint32_t i = 0; i < values.size(); ++i) ASSERT_EQ(codes[begin + i], wanted.codes[i]) << values[i];
    }
    ASSERT_EQ(codes[hidden], 0xA5);
    ASSERT_EQ(scales[num_groups], 77.0F);
  }

  void expect_activated(ActivateArgs args) {
    std::vector<float> values;
    for (uint32_t i = 0; i < args.num_cols; ++i) {
      const float gate = args.gate_bias == nullptr ? args.gate[i] : args.gate[i] + args.gate_bias[i];
      const float up = args.up_bias == nullptr ? args.up[i] : args.up[i] + args.up_bias[i];
      values.push_back(flow::activate(gate, up, args.rule) * args.row_weight);
    }
    const Quantised wanted = quantised(values, args.scale_rule);
    std::vector<uint8_t> codes(args.num_cols + 1, 0xA5);
    float scale = 0.0F;
    args.codes = codes.data();
    args.scale = &scale;
    kernels_.activate_group(args);
    ASSERT_TRUE(same_bits(scale, wanted.scale)) << scale << " wanted " << wanted.scale;
    for (uint32_t i = 0; i < args.num_cols; ++i) ASSERT_EQ(codes[i], wanted.codes[i]) << i << " of " << args.num_cols;
    ASSERT_EQ(codes[args.num_cols], 0xA5);
  }
};

std::vector<uint16_t> bf16_row(const std::vector<float>& values) {
  std::vector<uint16_t> row;
  for (const float value : values) row.push_back(bf16_from_float(value));
  return row;
}

TEST_P(RowsTest, QuantiseEveryBf16Value) {
  std::vector<uint16_t> x(65536);
  for (uint32_t i = 0; i < 65536; ++i) x[i] = static_cast<uint16_t>(i * 40503);  // mixes exponents within a group
  for (const ScaleRule rule : {ScaleRule::fp32, ScaleRule::power_of_two}) {
    expect_quantised(x, rule);
    std::sort(x.begin(), x.end());
    expect_quantised(x, rule);
  }
}

TEST_P(RowsTest, QuantiseRowsOfAnyWidth) {
  for (uint32_t hidden = 16; hidden <= 400; hidden += 16) {
    expect_quantised(bf16_row(random_floats(hidden, hidden, -9.0F, 9.0F)), ScaleRule::fp32);
  }
}

TEST_P(RowsTest, AZeroGroupHasScaleOneAndZeroCodes) {
  const std::vector<uint16_t> x(256, 0);
  std::vector<uint8_t> codes(256, 0xA5);
  float scales[2] = {0.0F, 0.0F};
  kernels_.quantise_row(x.data(), 256, ScaleRule::fp32, codes.data(), scales);
  EXPECT_EQ(scales[0], 1.0F);
  EXPECT_EQ(scales[1], 1.0F);
  EXPECT_EQ(codes, std::vector<uint8_t>(256, 0));
}

TEST_P(RowsTest, NanAndInfinityPoisonNoNeighbour) {
  std::vector<float> values = random_floats(128, 3);
  const std::vector<uint16_t> clean = bf16_row(values);
  std::vector<uint16_t> dirty = clean;
  dirty[17] = bf16_from_float(kNan);
  dirty[90] = bf16_from_float(-kInf);
  std::vector<uint8_t> clean_codes(128);
  std::vector<uint8_t> dirty_codes(128);
  float clean_scale = 0.0F;
  float dirty_scale = 0.0F;
  std::vector<uint16_t> masked = clean;
  masked[17] = masked[90] = 0;
  kernels_.quantise_row(masked.data(), 128, ScaleRule::fp32, clean_codes.data(), &clean_scale);
  kernels_.quantise_row(dirty.data(), 128, ScaleRule::fp32, dirty_codes.data(), &dirty_scale);
  EXPECT_EQ(dirty_scale, clean_scale);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(dirty_codes[i], i == 17 || i == 90 ? kE4m3Nan : clean_codes[i]);
}

TEST_P(RowsTest, TinyGroupsHaveAFiniteReciprocal) {
  for (const float value : {0x1p-133F, 0x1p-126F, 0x1p-118F, 0x1p-100F}) {
    expect_quantised(bf16_row(std::vector<float>(128, value)), ScaleRule::fp32);
    expect_quantised(bf16_row(std::vector<float>(128, value)), ScaleRule::power_of_two);
  }
}

TEST_P(RowsTest, ActivateEveryWidthAndOption) {
  const std::vector<float> gate = random_floats(128, 1, -12.0F, 12.0F);
  const std::vector<float> up = random_floats(128, 2, -12.0F, 12.0F);
  const std::vector<float> gate_bias = random_floats(128, 3);
  const std::vector<float> up_bias = random_floats(128, 4);
  for (uint32_t num_cols = 1; num_cols <= 128; ++num_cols) {
    ActivateArgs args;
    args.num_cols = num_cols;
    args.gate = gate.data();
    args.up = up.data();
    expect_activated(args);
    args.row_weight = -0.37F;
    args.scale_rule = ScaleRule::power_of_two;
    args.rule = {7.0F, 1.702F, 1.0F};
    args.gate_bias = gate_bias.data();
    expect_activated(args);
    args.up_bias = up_bias.data();
    expect_activated(args);
  }
}

TEST_P(RowsTest, ActivateExtremes) {
  const std::vector<float> specials = {0.0F,    -0.0F, 1.0F,   -1.0F,  87.0F,   -87.0F, 88.0F, -88.0F, 200.0F,
                                       -200.0F, 3e38F, -3e38F, 1e-40F, -1e-40F, kInf,   -kInf, kNan};
  for (const float gate_value : specials) {
    std::vector<float> gate(specials.size(), gate_value);
    ActivateArgs args;
    args.num_cols = static_cast<uint32_t>(specials.size());
    args.gate = gate.data();
    args.up = specials.data();
    expect_activated(args);
    args.rule.limit = 7.0F;
    expect_activated(args);
  }
}

TEST_P(RowsTest, StorePartial) {
  std::vector<float> totals = random_floats(75, 8, -300.0F, 300.0F);
  totals[3] = kNan;
  totals[4] = kInf;
  totals[5] = -0.0F;
  const std::vector<float> bias = random_floats(75, 9);
  for (const RouterWeightRule rule : {RouterWeightRule::before_gemm2, RouterWeightRule::at_combine}) {
    for (uint32_t num_cols = 0; num_cols <= 75; num_cols += 5) {
      std::vector<uint16_t> partial(num_cols + 1, 0xA5A5);
      kernels_.store_partial(totals.data(), bias.data(), num_cols, 0.3F, rule, partial.data());
      for (uint32_t i = 0; i < num_cols; ++i) {
        ASSERT_TRUE(same_bf16(partial[i], flow::partial_value(totals[i], bias[i], 0.3F, rule))) << i;
      }
      kernels_.store_partial(totals.data(), nullptr, num_cols, 0.3F, rule, partial.data());
      for (uint32_t i = 0; i < num_cols; ++i) ASSERT_TRUE(same_bf16(partial[i], bf16_from_float(totals[i]))) << i;
      ASSERT_EQ(partial[num_cols], 0xA5A5);
    }
  }
}

TEST_P(RowsTest, CombineAddsInOrder) {
  const std::vector<float> weights = random_floats(8, 11);
  std::vector<std::vector<uint16_t>> rows;
  std::vector<const uint16_t*> partials;
  for (uint32_t p = 0; p < 8; ++p) rows.push_back(bf16_row(random_floats(300, 20 + p, -100.0F, 100.0F)));
  rows[2][7] = bf16_from_float(kNan);
  for (const std::vector<uint16_t>& row : rows) partials.push_back(row.data());
  for (const RouterWeightRule rule : {RouterWeightRule::before_gemm2, RouterWeightRule::at_combine}) {
    for (const uint32_t num_cols : {1U, 16U, 127U, 128U, 129U, 300U}) {
      for (uint32_t num_partials = 0; num_partials <= 8; ++num_partials) {
        std::vector<uint16_t> y(num_cols + 1, 0xA5A5);
        kernels_.combine_row(partials.data(), weights.data(), num_partials, num_cols, rule, y.data());
        for (uint32_t i = 0; i < num_cols; ++i) {
          float sum = 0.0F;
          for (uint32_t p = 0; p < num_partials; ++p) sum = flow::combine_add(sum, rows[p][i], weights[p], rule);
          ASSERT_TRUE(same_bf16(y[i], bf16_from_float(sum))) << "column " << i << " of " << num_cols;
        }
        ASSERT_EQ(y[num_cols], 0xA5A5);
      }
    }
  }
}

MM_FOR_EVERY_ISA(RowsTest);

}  // namespace
}  // namespace megamoe::cpu
