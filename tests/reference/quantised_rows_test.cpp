#include "reference/quantised_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "check/random.hpp"
#include "flow/quantise.hpp"
#include "formats/e4m3.hpp"

namespace megamoe::reference {
namespace {

/// Scales and codes as src/flow makes them: the reference must take the same ones.
QuantisedGroup flow_group(std::span<const float> values, ActivationScale rule) {
  float amax = 0;
  for (const float value : values) amax = std::max(amax, flow::amax_term(value));
  QuantisedGroup group;
  group.scale =
      flow::group_scale(amax, rule == ActivationScale::fp32 ? flow::ScaleRule::fp32 : flow::ScaleRule::power_of_two);
  for (const float value : values) group.codes.push_back(flow::quantise(value, rcp_rn(group.scale)));
  return group;
}

TEST(QuantisedRows, AgreesWithTheFlowOnEveryMagnitude) {
  const check::Stream stream(5);
  for (const ActivationScale rule : {ActivationScale::fp32, ActivationScale::power_of_two}) {
    for (int exponent = -149; exponent <= 126; ++exponent) {
      std::vector<float> values;
      for (uint32_t i = 0; i < kActivationGroup; ++i) {
        values.push_back(std::ldexp(static_cast<float>(2 * stream.uniform(values.size() + i * 131U) - 1), exponent));
      }
      const QuantisedGroup want = flow_group(values, rule);
      const QuantisedGroup got = quantise_group(values, rule);
      ASSERT_EQ(got.scale, want.scale) << exponent;
      ASSERT_EQ(got.codes, want.codes) << exponent;
    }
  }
}

TEST(QuantisedRows, TheLargestValueTakesTheLargestCode) {
  const std::vector<float> values = {1.0F, -3.0F, 0.5F};
  const QuantisedGroup group = quantise_group(values, ActivationScale::fp32);
  EXPECT_EQ(e4m3_to_float(group.codes[1]), -448.0F);
  EXPECT_NEAR(static_cast<double>(group.scale), 3.0 / 448, 1e-9);
}

TEST(QuantisedRows, Case09_ZeroGroupHasScaleOneAndExactZeros) {
  const std::vector<float> values(kActivationGroup, 0.0F);
  const QuantisedGroup group = quantise_group(values, ActivationScale::fp32);
  EXPECT_EQ(group.scale, 1.0F);
  for (const uint8_t code : group.codes) EXPECT_EQ(code, 0);
}

TEST(QuantisedRows, ATinyMaximumKeepsAFiniteReciprocal) {
  const std::vector<float> values = {std::numeric_limits<float>::denorm_min(), 0x1p-130F};
  for (const ActivationScale rule : {ActivationScale::fp32, ActivationScale::power_of_two}) {
    const QuantisedGroup group = quantise_group(values, rule);
    EXPECT_EQ(group.scale, 0x1p-126F);
    EXPECT_EQ(e4m3_to_float(group.codes[1]), 0.0625F);
  }
}

TEST(QuantisedRows, Case14_NonFiniteValuesStayOutOfTheScale) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> clean = {1.0F, 2.0F, 0.0F, 0.0F, 0.0F};
  const std::vector<float> poisoned = {1.0F, 2.0F, inf, -inf, std::numeric_limits<float>::quiet_NaN()};
  const QuantisedGroup want = quantise_group(clean, ActivationScale::fp32);
  const QuantisedGroup got = quantise_group(poisoned, ActivationScale::fp32);
  EXPECT_EQ(got.scale, want.scale);
  EXPECT_EQ(got.codes[0], want.codes[0]);
  EXPECT_EQ(got.codes[1], want.codes[1]);
  for (size_t i = 2; i < 5; ++i) EXPECT_TRUE(std::isnan(e4m3_to_float(got.codes[i])));
}

TEST(QuantisedRows, PowerOfTwoScalesAreTheSmallestThatFit) {
  EXPECT_EQ(scale_of(448.0F, ActivationScale::power_of_two), 1.0F);
  EXPECT_EQ(scale_of(449.0F, ActivationScale::power_of_two), 2.0F);
  EXPECT_EQ(scale_of(3.5F, ActivationScale::power_of_two), 0x1p-7F);
}

}  // namespace
}  // namespace megamoe::reference
