#pragma once

// The FP64 reference of the numerics contract (design: "Numerics contract"): the same quantised inputs as the layer,
// every other step in FP64. Written on its own, on purpose: it shares no arithmetic with src/flow and src/cpu.

#include <cstdint>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace megamoe {

/// What a correct layer returns for one batch of tokens, and how exactly it can be judged.
struct ReferenceRows {
  uint32_t num_rows = 0;          ///< T
  uint32_t hidden = 0;            ///< H
  std::vector<double> y;          ///< [T, H]; NaN where the layer must return NaN
  std::vector<double> magnitude;  ///< [T]: sqrt(sum over k of ||weighted partial_k||^2); 0 for a row with no expert
  /// [T]: L2 distance from y that a correct layer may have because its sums put an intermediate value on the other
  /// side of a rounding boundary of e4m3, or gave its group another scale.
  std::vector<double> flip_slack;
  std::vector<uint8_t> poisoned;  ///< [T]: 1 where y holds NaN (non-finite input or weight scale)
};

/// How the layer under judgement adds products; the reference adds in FP64 whatever it says, but
/// ReferenceRows::flip_slack follows from it.
enum class ProductSums : uint8_t {
  fp32,
  fp8_tensor_core,  ///< Hopper's: 13 fraction bits, truncated (docs/hopper-tensor-core.md), promoted every 128 of K
};

/// How the layers of a backend add.
constexpr ProductSums product_sums(Backend backend) {
  return backend == Backend::sm90 || backend == Backend::chain ? ProductSums::fp8_tensor_core : ProductSums::fp32;
}

/// Computes the layer's result for the tokens of `input`. Uses shape and activation of `config` only.
/// Errors: whatever `weights` returns; sizes of `input` or of a weight that do not fit the shape.
Result<ReferenceRows> reference_rows(const LayerConfig& config, const WeightSource& weights, const RankInput& input,
                                     ProductSums sums = ProductSums::fp32);

}  // namespace megamoe
