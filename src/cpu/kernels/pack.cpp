// Moves an expert's matrices into panels: a transpose of codes, 16 output columns at a time, and the scales that go
// with them as FP32.

#include "cpu/kernels/pack.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "formats/weight_rows.hpp"

namespace megamoe::cpu {
namespace {

using PanelSources = std::array<WeightRow, kPanelCols>;

/// First and last FP32 exponent (plus 127) of values that are not far: 2^-100 and 2^100.
constexpr std::pair<uint32_t, uint32_t> kNearExponents{27, 227};

/// Nibbles of eight columns of K, in order, to the order of a packed word: column j beside column 4 + j.
uint32_t pair_nibbles(uint32_t columns) {
  const auto spread = [](uint32_t half) {
    half = (half | half << 8) & 0x00FF00FFU;
    return (half | half << 4) & 0x0F0F0F0FU;
  };
  return spread(columns & 0xFFFFU) | spread(columns >> 16) << 4;
}

/// Adds to its running state whether any byte of a word is a NaN code of e4m3.
uint32_t nan_bytes(uint32_t word) { return ((word & 0x7F7F7F7FU) + 0x01010101U) & 0x80808080U; }

/// Whether a half of a word is a BF16 value under the near ones, but not 0.
bool has_far_half(uint32_t word) {
  const auto is_far = [](uint32_t bits) { return bits != 0 && bits < kNearExponents.first << 7; };
  return is_far(word & 0x7FFFU) || is_far(word >> 16 & 0x7FFFU);
}

/// Codes of one panel, word by word: out [num_k / values_per_word, 16].
template <WeightFormat kFormat>
PackedFacts pack_panel_codes(const PanelSources& sources, uint32_t num_k, std::byte* out) {
  constexpr uint32_t kBlockWords = 16;  // of one cache line per row, so that each line is read once
  const uint32_t num_words = num_k / values_per_word(kFormat);
  uint32_t nans = 0;
  bool is_far = false;
  for (uint32_t begin = 0; begin < num_words; begin += kBlockWords) {
    const uint32_t end = std::min(begin + kBlockWords, num_words);
    for (uint32_t col = 0; col < kPanelCols; ++col) {
      const auto [matrix, row] = sources[col];
      const std::byte* in = matrix->values.data() + size_t{row} * num_words * sizeof(uint32_t);
      for (uint32_t idx = begin; idx < end; ++idx) {
        uint32_t word;
        std::memcpy(&word, in + idx * sizeof(word), sizeof(word));
        if constexpr (kFormat == WeightFormat::mxfp4) word = pair_nibbles(word);
        if constexpr (kFormat == WeightFormat::fp8_block) nans |= nan_bytes(word);
        if constexpr (kFormat == WeightFormat::bf16) is_far |= has_far_half(word);
        std::memcpy(out + (size_t{idx} * kPanelCols + col) * sizeof(word), &word, sizeof(word));
      }
    }
  }
  return {nans != 0 ? NanCodes::some : NanCodes::none, is_far ? FarValues::some : FarValues::none};
}

PackedFacts pack_panel_codes(const PanelSources& sources, const PackedLayout& layout, std::byte* out) {
  switch (layout.format) {
    case WeightFormat::fp8_block: return pack_panel_codes<WeightFormat::fp8_block>(sources, layout.num_k, out);
    case WeightFormat::mxfp4: return pack_panel_codes<WeightFormat::mxfp4>(sources, layout.num_k, out);
    case WeightFormat::bf16: return pack_panel_codes<WeightFormat::bf16>(sources, layout.num_k, out);
  }
  return {};
}

/// Scales of one panel, segment by segment, in the form that layout.scale says.
PackedFacts pack_panel_scales(const PanelSources& sources, const PackedLayout& layout, std::byte* out) {
  PackedFacts facts;
  const uint32_t num_cols = layout.scale == PackedScale::panel_f32 ? 1 : kPanelCols;
  for (uint32_t segment = 0; segment < layout.num_segments(); ++segment) {
    for (uint32_t col = 0; col < num_cols; ++col) {
      const WeightRow& source = sources[col];
      const size_t idx = scale_idx(source, segment * layout.segment_k);
      if (layout.scale == PackedScale::column_e8m0) {
        const uint8_t exponent = std::get<std::span<const E8m0>>(source.matrix->scales)[idx].bits;
        if (exponent < kNearExponents.first || exponent > kNearExponents.second) facts.far_values = FarValues::some;
        *out++ = std::byte{exponent};
      } else {
        const float scale = load_scale(*source.matrix, idx);
        std::memcpy(out, &scale, sizeof(scale));
        out += sizeof(scale);
      }
    }
  }
  return facts;
}

/// Packs a range of panels; `source_of(panel, col)` says where their columns come from.
template <class SourceOf>
PackedFacts pack(const PackedLayout& layout, std::byte* codes, std::byte* scales, PanelRange panels,
                 SourceOf source_of) {
  PackedFacts facts;
  for (uint32_t panel = panels.first; panel < std::min(panels.end, layout.num_panels); ++panel) {
    PanelSources sources;
    for (uint32_t col = 0; col < kPanelCols; ++col) sources[col] = source_of(panel, col);
    add(facts, pack_panel_codes(sources, layout, codes + panel * layout.panel_code_bytes()));
    if (layout.scale != PackedScale::none) {
      add(facts, pack_panel_scales(sources, layout, scales + panel * layout.panel_scale_bytes()));
    }
  }
  return facts;
}

}  // namespace

void add(PackedFacts& facts, const PackedFacts& more) {
  if (more.nan_codes == NanCodes::some) facts.nan_codes = NanCodes::some;
  if (more.far_values == FarValues::some) facts.far_values = FarValues::some;
}

PackedFacts pack_gemm1(const ExpertWeights& weights, const LayerShape& shape, const PackedLayout& layout,
                       std::byte* codes, std::byte* scales, PanelRange panels) {
  return pack(layout, codes, scales, panels, [&](uint32_t panel, uint32_t panel_col) {
    const GateUpHalf half = panel % 2 == 0 ? GateUpHalf::gate : GateUpHalf::up;
    return gate_up_row(weights, shape.intermediate, half, panel / 2 * kPanelCols + panel_col);
  });
}

PackedFacts pack_gemm2(const ExpertWeights& weights, const LayerShape&, const PackedLayout& layout, std::byte* codes,
                       std::byte* scales, PanelRange panels) {
  return pack(layout, codes, scales, panels, [&](uint32_t panel, uint32_t panel_col) {
    return WeightRow{&weights.down, panel * kPanelCols + panel_col};
  });
}

void pack_biases(const ExpertWeights& weights, const LayerShape& shape, float* gate_bias, float* up_bias,
                 float* down_bias) {
  const auto copy = [](std::span<const float> bias, size_t first, size_t stride, uint32_t num_values, float* out) {
    for (uint32_t i = 0; i < num_values; ++i)
      out[i] = bias.empty() ? 0.0F : load_float(bias.data(), first + i * stride);
  };
  const uint32_t intermediate = shape.intermediate;
  switch (weights.layout) {
    case GateUpLayout::separate:
      copy(weights.gate_bias, 0, 1, intermediate, gate_bias);
      copy(weights.up_bias, 0, 1, intermediate, up_bias);
      break;
    case GateUpLayout::concatenated:
      copy(weights.gate_up_bias, 0, 1, intermediate, gate_bias);
      copy(weights.gate_up_bias, intermediate, 1, intermediate, up_bias);
      break;
    case GateUpLayout::interleaved:
      copy(weights.gate_up_bias, 0, 2, intermediate, gate_bias);
      copy(weights.gate_up_bias, 1, 2, intermediate, up_bias);
      break;
  }
  copy(weights.down_bias, 0, 1, shape.hidden, down_bias);
}

}  // namespace megamoe::cpu
