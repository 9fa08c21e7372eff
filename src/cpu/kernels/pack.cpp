// Moves an expert's matrices into panels: a transpose of codes, 16 output columns at a time, and the scales that go
// with them as FP32. Values and scales come straight out of files, so nothing here assumes that they are aligned.

#include "cpu/kernels/pack.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/e8m0.hpp"

namespace megamoe::cpu {
namespace {

/// One output column of a panel: a row of the matrix it comes from.
struct SourceRow {
  const WeightMatrix* matrix = nullptr;
  uint32_t row = 0;
};
using PanelSources = std::array<SourceRow, kPanelCols>;

enum class Half : uint32_t { gate, up };

/// Where column `col` of gate or up stands in the checkpoint's layout. REQUIRES col < intermediate.
SourceRow gate_up_source(const ExpertWeights& weights, uint32_t intermediate, Half half, uint32_t col) {
  const auto offset = static_cast<uint32_t>(half);
  switch (weights.layout) {
    case GateUpLayout::separate: return {half == Half::gate ? &weights.gate : &weights.up, col};
    case GateUpLayout::concatenated: return {&weights.gate_up, offset * intermediate + col};
    case GateUpLayout::interleaved: return {&weights.gate_up, 2 * col + offset};
  }
  return {};
}

float load_float(const float* values, size_t idx) {
  float value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(values) + idx * sizeof(float), sizeof(float));
  return value;
}

float load_scale(const WeightMatrix& matrix, size_t idx) {
  if (const auto* scales = std::get_if<std::span<const E8m0>>(&matrix.scales)) {
    return e8m0_to_float((*scales)[idx].bits);
  }
  return load_float(std::get<std::span<const float>>(matrix.scales).data(), idx);
}

/// Codes of one panel as units of `Unit`: an e4m3 byte, a byte of two e2m1 nibbles (both of the same column, so the
/// pair stays together), or a BF16 value. out [num_units, 16].
template <class Unit>
void transpose_panel(const PanelSources& sources, uint32_t num_units, std::byte* out) {
  constexpr uint32_t kBlockUnits = 64;  // of one cache line per row, so that each line is read once
  for (uint32_t begin = 0; begin < num_units; begin += kBlockUnits) {
    const uint32_t end = std::min(begin + kBlockUnits, num_units);
    for (uint32_t col = 0; col < kPanelCols; ++col) {
      const auto [matrix, row] = sources[col];
      const std::byte* in = matrix->values.data() + size_t{row} * num_units * sizeof(Unit);
      for (uint32_t unit = begin; unit < end; ++unit) {
        std::memcpy(out + (size_t{unit} * kPanelCols + col) * sizeof(Unit), in + unit * sizeof(Unit), sizeof(Unit));
      }
    }
  }
}

void pack_panel_codes(const PanelSources& sources, const PackedLayout& layout, std::byte* out) {
  switch (layout.format) {
    case WeightFormat::fp8_block: return transpose_panel<uint8_t>(sources, layout.num_k, out);
    case WeightFormat::mxfp4: return transpose_panel<uint8_t>(sources, layout.num_k / 2, out);
    case WeightFormat::bf16: return transpose_panel<uint16_t>(sources, layout.num_k, out);
  }
}

/// out [num_segments, 16].
void pack_panel_scales(const PanelSources& sources, const PackedLayout& layout, float* out) {
  for (uint32_t col = 0; col < kPanelCols; ++col) {
    const auto [matrix, row] = sources[col];
    for (uint32_t segment = 0; segment < layout.num_segments(); ++segment) {
      const size_t blocks_per_row = (size_t{matrix->num_cols} + matrix->block_cols - 1) / matrix->block_cols;
      const size_t block_row = row / matrix->block_rows;
      const size_t block_col = segment * layout.segment_k / matrix->block_cols;
      out[segment * kPanelCols + col] = load_scale(*matrix, block_row * blocks_per_row + block_col);
    }
  }
}

/// Packs every panel; `source_of(panel, col)` says where its columns come from.
template <class SourceOf>
void pack(const PackedLayout& layout, std::byte* codes, float* scales, SourceOf source_of) {
  for (uint32_t panel = 0; panel < layout.num_panels; ++panel) {
    PanelSources sources;
    for (uint32_t col = 0; col < kPanelCols; ++col) sources[col] = source_of(panel, col);
    pack_panel_codes(sources, layout, codes + panel * layout.panel_code_bytes());
    const size_t first_scale = size_t{panel} * layout.num_segments() * kPanelCols;
    pack_panel_scales(sources, layout, scales + first_scale);
  }
}

}  // namespace

void pack_gemm1(const ExpertWeights& weights, const LayerShape& shape, const PackedLayout& layout, std::byte* codes,
                float* scales) {
  pack(layout, codes, scales, [&](uint32_t panel, uint32_t panel_col) {
    const Half half = panel % 2 == 0 ? Half::gate : Half::up;
    return gate_up_source(weights, shape.intermediate, half, panel / 2 * kPanelCols + panel_col);
  });
}

void pack_gemm2(const ExpertWeights& weights, const LayerShape&, const PackedLayout& layout, std::byte* codes,
                float* scales) {
  pack(layout, codes, scales, [&](uint32_t panel, uint32_t panel_col) {
    return SourceRow{&weights.down, panel * kPanelCols + panel_col};
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
