#pragma once

// Owning versions of the weight views, for tests that pack or break them.

#include <cstring>
#include <random>
#include <vector>

#include "megamoe/types.hpp"

namespace megamoe::cpu {

enum class ScaleKind { f32, e8m0 };

/// Storage of one matrix, or of its format alone.
struct MatrixSpec {
  WeightFormat format = WeightFormat::fp8_block;
  uint32_t block_rows = 128;
  uint32_t block_cols = 128;
  ScaleKind scale_kind = ScaleKind::f32;
};

inline constexpr MatrixSpec kMxfp4Spec{WeightFormat::mxfp4, 1, 32, ScaleKind::e8m0};
inline constexpr MatrixSpec kBf16Spec{WeightFormat::bf16, 0, 0, ScaleKind::f32};

/// A matrix of random codes; values and scales begin one byte off any alignment, as they may in a mapped file.
class OwnedMatrix {
 public:
  OwnedMatrix(const MatrixSpec& spec, uint32_t num_rows, uint32_t num_cols, uint32_t seed) {
    const size_t num_values = size_t{num_rows} * num_cols;
    const size_t value_bytes = spec.format == WeightFormat::bf16    ? num_values * 2
                               : spec.format == WeightFormat::mxfp4 ? num_values / 2
                                                                    : num_values;
    std::minstd_rand random(seed);
    values_.resize(value_bytes + 1);
    for (std::byte& value : values_) value = static_cast<std::byte>(random() >> 8);
    view_ = {spec.format,     num_rows,        num_cols, std::span<const std::byte>(values_).subspan(1),
             spec.block_rows, spec.block_cols, {}};
    if (spec.block_rows == 0) return;
    const size_t num_scales = size_t{(num_rows - 1) / spec.block_rows + 1} * ((num_cols - 1) / spec.block_cols + 1);
    if (spec.scale_kind == ScaleKind::e8m0) {
      e8m0_scales_.resize(num_scales);
      for (E8m0& scale : e8m0_scales_) scale.bits = static_cast<uint8_t>(random() >> 8);
      view_.scales = std::span<const E8m0>(e8m0_scales_);
      return;
    }
    f32_scale_bytes_.resize(num_scales * sizeof(float) + 1);
    for (size_t i = 0; i < num_scales; ++i) {
      const float scale = 0.25F + static_cast<float>(random() % 1000) * 0.01F;
      std::memcpy(f32_scale_bytes_.data() + 1 + i * sizeof(float), &scale, sizeof(float));
    }
    view_.scales = std::span<const float>(reinterpret_cast<const float*>(f32_scale_bytes_.data() + 1), num_scales);
  }

  const WeightMatrix& view() const { return view_; }

 private:
  std::vector<std::byte> values_;
  std::vector<std::byte> f32_scale_bytes_;
  std::vector<E8m0> e8m0_scales_;
  WeightMatrix view_;
};

/// One expert with biases, in any layout. The views point into the object: it stays where it is.
class OwnedExpert {
 public:
  OwnedExpert(GateUpLayout layout, const MatrixSpec& spec, const LayerShape& shape)
      : gate_(spec, shape.intermediate, shape.hidden, 1),
        up_(spec, shape.intermediate, shape.hidden, 2),
        gate_up_(spec, 2 * shape.intermediate, shape.hidden, 3),
        down_(spec, shape.hidden, shape.intermediate, 4),
        gate_up_bias_(2 * size_t{shape.intermediate}),
        down_bias_(shape.hidden) {
    for (size_t i = 0; i < gate_up_bias_.size(); ++i) gate_up_bias_[i] = static_cast<float>(i) + 0.5F;
    for (size_t i = 0; i < down_bias_.size(); ++i) down_bias_[i] = -static_cast<float>(i);
    weights.layout = layout;
    weights.down = down_.view();
    weights.down_bias = down_bias_;
    if (layout == GateUpLayout::separate) {
      weights.gate = gate_.view();
      weights.up = up_.view();
      weights.gate_bias = std::span<const float>(gate_up_bias_).first(shape.intermediate);
      weights.up_bias = std::span<const float>(gate_up_bias_).last(shape.intermediate);
    } else {
      weights.gate_up = gate_up_.view();
      weights.gate_up_bias = gate_up_bias_;
    }
  }
  OwnedExpert(const OwnedExpert&) = delete;
  OwnedExpert& operator=(const OwnedExpert&) = delete;

  ExpertWeights weights;

 private:
  OwnedMatrix gate_;
  OwnedMatrix up_;
  OwnedMatrix gate_up_;
  OwnedMatrix down_;
  std::vector<float> gate_up_bias_;
  std::vector<float> down_bias_;
};

}  // namespace megamoe::cpu
