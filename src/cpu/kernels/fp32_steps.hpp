#pragma once

// Steps of the gemm loops on FP32: one column of K at a time, one multiply-add per output element. See generic.hpp for
// what V is; bf16_pairs.hpp has the steps of the BF16 dot product.

#include "cpu/kernels/kernels.hpp"

// For templates whose arguments are compile-time steps of one loop.
#define MM_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace megamoe::cpu {
namespace {

template <class S>
constexpr Factors factors_of(WeightFormat format) {
  return format == WeightFormat::fp8_block ? S::kFp8 : format == WeightFormat::mxfp4 ? S::kMxfp4 : Factors{};
}

template <class V>
struct Fp32Steps {
  using Vec = V;
  using Words = typename V::Words;
  using Operand = V;
  static constexpr uint32_t kStepK = 1;
  static constexpr uint32_t kMaxRows = V::kMaxRows;
  static constexpr uint32_t kMultipliedPanels = V::kMultipliedPanels;
  static constexpr uint32_t streamed_panels(uint32_t num_rows) { return V::streamed_panels(num_rows); }
  static constexpr Factors kFp8 = V::kFp8;
  static constexpr Factors kMxfp4 = V::kMxfp4;
  static constexpr uint32_t kFlops = 2 * V::kLanes;

  static Operand broadcast(const uint32_t* a) { return V::broadcast(*reinterpret_cast<const float*>(a)); }
  static Operand load(const uint32_t* w) { return V::load(reinterpret_cast<const float*>(w)); }
  static void store(Operand values, uint32_t* w) { values.store(reinterpret_cast<float*>(w)); }
  static V multiply_add(Operand a, Operand w, V sum) { return fma(a, w, sum); }
  /// Sums converge to 2 whatever the number of steps, so that no step meets infinities or subnormal numbers.
  static V ceiling_step(V sum) { return fma(sum, V::broadcast(0.5F), V::broadcast(1.0F)); }

  template <WeightFormat kFormat, Part kPart>
  static MM_ALWAYS_INLINE Words part_of(Words words) {
    if constexpr (kFormat != WeightFormat::mxfp4) {
      return words;
    } else {
      return V::template e2m1_part<kPart>(words);
    }
  }
  /// Column j of K of a part.
  template <WeightFormat kFormat, NanCodes kNans, uint32_t j>
  static MM_ALWAYS_INLINE Operand operand_of(Words part) {
    if constexpr (kFormat == WeightFormat::bf16) {
      return V::template bf16_half<j>(part);
    } else if constexpr (kFormat == WeightFormat::mxfp4) {
      return V::template e2m1_value<j>(part);
    } else if constexpr (kNans == NanCodes::none) {
      return V::template e4m3_value<j>(part);
    } else {
      return V::with_nan(V::template e4m3_value<j>(part));
    }
  }

  static void prepare_row(WeightFormat format, const uint8_t* codes, uint32_t num_cols, uint32_t* a) {
    const float factor = factors_of<Fp32Steps>(format).activations;
    auto* values = reinterpret_cast<float*>(a);
    for (uint32_t i = 0; i < num_cols; i += kPanelCols) V::decode_e4m3(codes + i, factor, values + i);
  }
};

}  // namespace
}  // namespace megamoe::cpu
