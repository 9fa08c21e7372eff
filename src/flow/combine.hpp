#pragma once

// How a token's partial results become its output: FP32, in the order k = 0, 1, ..., one rounding at the end.

#include "formats/bf16.hpp"
#include "formats/platform.hpp"

namespace megamoe::flow {

enum class RouterWeightRule : uint32_t { before_gemm2, at_combine };

/// gemm2's epilogue: the BF16 partial of one output column. The bias belongs to the expert's result, so it carries the
/// router weight exactly when the intermediate already does.
MM_HOST_DEVICE uint16_t partial_value(float total, float down_bias, float router_weight, RouterWeightRule rule) {
  const float biased =
      rule == RouterWeightRule::before_gemm2 ? fma_rn(router_weight, down_bias, total) : add_rn(total, down_bias);
  return bf16_from_float(biased);
}

/// Adds one valid partial to the running sum of its token's column.
MM_HOST_DEVICE float combine_add(float sum, uint16_t partial, float router_weight, RouterWeightRule rule) {
  const float value = bf16_to_float(partial);
  return rule == RouterWeightRule::at_combine ? fma_rn(router_weight, value, sum) : add_rn(sum, value);
}

}  // namespace megamoe::flow
