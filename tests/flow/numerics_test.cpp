// The numeric rules: exp, activation, group scales, quantisation, combine.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/quantise.hpp"

namespace megamoe::flow {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Exp, IsWithinItsBoundAndClamps) {
  double worst = 0;
  for (float x = kExpMin; x <= kExpMax; x += 0.00317F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_clamped(x) - exact) / exact);
  }
  EXPECT_LT(worst, 1.5e-7);
  EXPECT_EQ(exp_clamped(0.0F), 1.0F);
  EXPECT_EQ(exp_clamped(-kInf), exp_clamped(kExpMin));
  EXPECT_EQ(exp_clamped(kInf), kInf);
  EXPECT_EQ(exp_clamped(89.0F), kInf);
  EXPECT_TRUE(std::isnan(exp_clamped(kNan)));
}

TEST(Activate, IsSwiGluByDefault) {
  for (float gate = -20.0F; gate < 20.0F; gate += 0.37F) {
    for (const float up : {-3.5F, 0.0F, 0.25F, 100.0F}) {
      const double exact = gate / (1.0 + std::exp(-static_cast<double>(gate))) * up;
      EXPECT_NEAR(activate(gate, up, {}), exact, 1e-6 * std::abs(exact) + 1e-30);
    }
  }
}

TEST(Activate, HugeNegativeGatesGiveZero) {
  for (const float gate : {-100.0F, -1e10F, -3e38F}) EXPECT_EQ(activate(gate, 2.0F, {}), 0.0F) << gate;
  EXPECT_TRUE(std::isnan(activate(-kInf, 1.0F, {})));
}

TEST(Activate, LimitAlphaAndOffset) {
  const ActivationRule rule{7.0F, 1.702F, 1.0F};
  const auto exact = [](double gate, double up) {
    gate = std::min(gate, 7.0);
    up = std::clamp(up, -7.0, 7.0);
    return gate / (1.0 + std::exp(-1.702F * gate)) * (up + 1.0);
  };
  for (const float gate : {-30.0F, -2.0F, 0.5F, 6.9F, 8.0F, 1e30F}) {
    for (const float up : {-1e9F, -7.5F, 0.1F, 6.0F, 50.0F}) {
      EXPECT_NEAR(activate(gate, up, rule), exact(gate, up), 1e-5 * std::abs(exact(gate, up)) + 1e-20);
    }
  }
  EXPECT_TRUE(std::isnan(activate(kNan, 1.0F, rule)));
  EXPECT_TRUE(std::isnan(activate(1.0F, kNan, rule)));
}

TEST(GroupScale, Case09_ZeroAndTinyGroups) {
  EXPECT_EQ(group_scale(0.0F, ScaleRule::fp32), 1.0F);
  EXPECT_EQ(group_scale(0.0F, ScaleRule::power_of_two), 1.0F);
  for (const float amax : {1e-45F, 1e-40F, 1e-38F, 1e-36F}) {
    for (const ScaleRule rule : {ScaleRule::fp32, ScaleRule::power_of_two}) {
      const float scale = group_scale(amax, rule);
      EXPECT_GE(scale, kScaleMin);
      EXPECT_TRUE(std::isfinite(rcp_rn(scale)));
    }
  }
  EXPECT_EQ(quantise(0.0F, rcp_rn(group_scale(0.0F, ScaleRule::fp32))), 0);
}

TEST(GroupScale, LargestValueKeepsTheTopCode) {
  for (float amax = 1e-30F; amax < 1e38F; amax *= 3.7F) {
    EXPECT_EQ(quantise(amax, rcp_rn(group_scale(amax, ScaleRule::fp32))), 0x7E) << amax;
    EXPECT_EQ(quantise(-amax, rcp_rn(group_scale(amax, ScaleRule::fp32))), 0xFE) << amax;
    const float power = group_scale(amax, ScaleRule::power_of_two);
    int exponent = 0;
    EXPECT_EQ(std::frexp(power, &exponent), 0.5F);
    EXPECT_GE(power, amax / 448.0F * 0.999F);
    EXPECT_LT(power, amax / 448.0F * 2.001F);
  }
}

TEST(Quantise, Case14_NanAndInfStayApart) {
  EXPECT_EQ(quantise(kNan, 1.0F) & 0x7F, kE4m3Nan);
  EXPECT_EQ(quantise(kInf, 1.0F) & 0x7F, kE4m3Nan);
  EXPECT_EQ(quantise(-kInf, 1.0F) & 0x7F, kE4m3Nan);
  EXPECT_EQ(amax_term(kNan), 0.0F);
  EXPECT_EQ(amax_term(-kInf), 0.0F);
  EXPECT_EQ(amax_term(-3.0F), 3.0F);
}

TEST(Combine, BiasCarriesTheRouterWeightOnce) {
  // w * (total' + b): before gemm2 the total already carries w; at combine neither does.
  const float before = bf16_to_float(partial_value(6.0F, 2.0F, 0.5F, RouterWeightRule::before_gemm2));
  EXPECT_EQ(combine_add(1.0F, bf16_from_float(before), 0.5F, RouterWeightRule::before_gemm2), 1.0F + 7.0F);
  const uint16_t late = partial_value(12.0F, 2.0F, 0.5F, RouterWeightRule::at_combine);
  EXPECT_EQ(bf16_to_float(late), 14.0F);
  EXPECT_EQ(combine_add(1.0F, late, 0.5F, RouterWeightRule::at_combine), 1.0F + 7.0F);
}

}  // namespace
}  // namespace megamoe::flow
