#pragma once

// The activation rule between gemm1 and gemm2, with the same bits on host and device: exp is a polynomial in fused
// multiply-adds, the reciprocal is the correctly rounded one, every other step rounds once.

#include "formats/platform.hpp"

namespace megamoe::flow {

/// Activation constants as the kernels take them; ActivationOptions of the public API maps onto it.
struct ActivationRule {
  float limit = bits_float(0x7F800000U);  ///< +infinity = no clamp
  float alpha = 1.0F;
  float up_offset = 0.0F;
};

inline constexpr float kExpMin = -87.0F;  ///< e^-87 is still a normal number ...
inline constexpr float kExpMax = 88.0F;   ///< ... and e^88 still a finite one

/// e^x as a product: of a number about 1, and of a power of two.
struct SplitExp {
  float mantissa;
  float power;
};

/// REQUIRES kExpMin <= x <= kExpMax, or NaN, which the mantissa becomes. Relative error below 1.5e-7.
MM_HOST_DEVICE SplitExp split_exp(float x) {
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kLn2High = 0x1.62E400p-1F;  // 15 significant bits: n * kLn2High is exact for |n| < 2^9
  constexpr float kLn2Low = 0x1.7F7D1Cp-20F;
  constexpr float kRoundToInteger = 0x1.8p23F;  // adding it leaves round(x) in the low bits of the sum

  const float shifted = fma_rn(x, kLog2E, kRoundToInteger);
  const float n = add_rn(shifted, -kRoundToInteger);
  const float r = fma_rn(n, -kLn2Low, fma_rn(n, -kLn2High, x));
  // Taylor series: |r| <= ln(2) / 2, so the first term left out is below 6e-9.
  float p = 1.0F / 5040.0F;
  p = fma_rn(p, r, 1.0F / 720.0F);
  p = fma_rn(p, r, 1.0F / 120.0F);
  p = fma_rn(p, r, 1.0F / 24.0F);
  p = fma_rn(p, r, 1.0F / 6.0F);
  p = fma_rn(p, r, 0.5F);
  p = fma_rn(p, r, 1.0F);
  p = fma_rn(p, r, 1.0F);
  const uint32_t exponent = float_bits(shifted) - float_bits(kRoundToInteger) + 127U;
  return {p, bits_float(exponent << 23)};
}

/// e^x for x in [kExpMin, kExpMax]; e^kExpMin below, infinity above; NaN stays NaN.
MM_HOST_DEVICE float exp_clamped(float x) {
  const bool overflows = x > kExpMax;
  x = x < kExpMin ? kExpMin : x;  // comparisons are false for NaN, which so passes through
  const SplitExp e = split_exp(overflows ? kExpMax : x);
  // Infinity, so that the sigmoid of a hugely negative number is exactly zero however large its factor. The factor is
  // chosen, not the product: nothing for a compiler to branch on.
  return mul_rn(e.mantissa, overflows ? bits_float(0x7F800000U) : e.power);
}

/// 1 / (1 + e^-x).
MM_HOST_DEVICE float sigmoid(float x) { return rcp_rn(add_rn(1.0F, exp_clamped(-x))); }

/// gate' * sigmoid(alpha * gate') * (up' + up_offset); gate and up come with their biases added.
MM_HOST_DEVICE float activate(float gate, float up, const ActivationRule& rule) {
  gate = gate > rule.limit ? rule.limit : gate;
  up = up > rule.limit ? rule.limit : up;
  up = up < -rule.limit ? -rule.limit : up;
  const float glu = mul_rn(gate, sigmoid(mul_rn(rule.alpha, gate)));
  return mul_rn(glu, add_rn(up, rule.up_offset));
}

}  // namespace megamoe::flow
