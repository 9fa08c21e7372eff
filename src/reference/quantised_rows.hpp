#pragma once

// Rows of e4m3 codes with one scale per 128 columns, as values: the input of gemm1 and of gemm2 in the reference.

#include <cstdint>
#include <span>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace megamoe::reference {

/// Codes and scale of one group of up to 128 values.
struct QuantisedGroup {
  float scale = 1.0F;
  std::vector<uint8_t> codes;  ///< one per value; the NaN code for values that are not finite
};

/// The contract's quantisation: amax over finite values, times FP32 1/448 (rounded up to a power of two if asked),
/// at least 2^-126, 1 for an all-zero group; codes of value * (1 / scale) in FP32.
QuantisedGroup quantise_group(std::span<const float> values, ActivationScale rule);

/// The scale alone, from the absolute maximum.
float scale_of(float amax, ActivationScale rule);

/// Dequantised activations of `input`, [num_tokens, H]; NaN where code or scale is NaN.
/// Errors: sizes of the spans in `input.x` that do not fit.
Result<std::vector<double>> activation_values(const LayerConfig& config, const RankInput& input);

}  // namespace megamoe::reference
