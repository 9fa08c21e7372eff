// Packing: every value and scale of the source is found where PackedLayout says, for every layout, format and block.

#include <string>
#include <tuple>

#include "cpu/kernels/pack.hpp"
#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "kernels_testing.hpp"
#include "weights_testing.hpp"

namespace megamoe::cpu {
namespace {

constexpr GateUpLayout kAllLayouts[] = {GateUpLayout::separate, GateUpLayout::concatenated, GateUpLayout::interleaved};

constexpr MatrixSpec kAllSpecs[] = {
    kBf16Spec,
    kMxfp4Spec,
    {WeightFormat::fp8_block, 128, 128, ScaleKind::f32},
    {WeightFormat::fp8_block, 32, 32, ScaleKind::e8m0},
    {WeightFormat::fp8_block, 1, 128, ScaleKind::f32},
    {WeightFormat::fp8_block, 7, 48, ScaleKind::f32},  // straddles gate and up, segments of 16
    {WeightFormat::fp8_block, 5, 9, ScaleKind::e8m0},  // segments of 1
    {WeightFormat::fp8_block, 4096, 4096, ScaleKind::f32},
};

/// Element value of a source matrix, unscaled.
float source_value(const WeightMatrix& m, uint32_t row, uint32_t col) {
  const size_t idx = size_t{row} * m.num_cols + col;
  const auto byte_at = [&](size_t i) { return std::to_integer<uint8_t>(m.values[i]); };
  switch (m.format) {
    case WeightFormat::fp8_block: return e4m3_to_float(byte_at(idx));
    case WeightFormat::mxfp4: return e2m1_to_float(col % 2 == 0 ? byte_at(idx / 2) & 15U : byte_at(idx / 2) >> 4);
    case WeightFormat::bf16: return bf16_to_float(static_cast<uint16_t>(byte_at(2 * idx) | byte_at(2 * idx + 1) << 8));
  }
  return 0.0F;
}

float source_scale(const WeightMatrix& m, uint32_t row, uint32_t col) {
  if (m.format == WeightFormat::bf16) return 1.0F;
  const uint32_t blocks_per_row = (m.num_cols - 1) / m.block_cols + 1;
  const size_t idx = size_t{row / m.block_rows} * blocks_per_row + col / m.block_cols;
  if (const auto* e8m0 = std::get_if<std::span<const E8m0>>(&m.scales)) return e8m0_to_float((*e8m0)[idx].bits);
  float scale = 0.0F;
  const auto* bytes = reinterpret_cast<const std::byte*>(std::get<std::span<const float>>(m.scales).data());
  std::memcpy(&scale, bytes + idx * sizeof(float), sizeof(float));
  return scale;
}

/// A packed matrix in memory of exactly its size, and its elements as the kernels see them.
class Packed {
 public:
  explicit Packed(const PackedLayout& layout)
      : codes(layout.total_code_bytes()), scales(layout.total_scale_bytes()), layout_(layout) {}

  /// Expands everything, K group by K group; w[panel][k][16].
  void expand() {
    const Kernels& kernels = **find_kernels(Isa::scalar);
    w_.resize(size_t{layout_.num_panels} * layout_.num_k * kPanelCols);
    for (uint32_t panel = 0; panel < layout_.num_panels; ++panel) {
      for (uint32_t k = 0; k < layout_.num_k; k += kGroupK) {
        const uint32_t num_k = std::min(kGroupK, layout_.num_k - k);
        kernels.expand(layout_.format, codes.data() + panel * layout_.panel_code_bytes() + layout_.code_bytes(k), num_k,
                       reinterpret_cast<uint32_t*>(w_.data() + (size_t{panel} * layout_.num_k + k) * kPanelCols));
      }
    }
  }
  float value(uint32_t panel, uint32_t k, uint32_t col) const {
    return w_[(size_t{panel} * layout_.num_k + k) * kPanelCols + col] *
           (*find_kernels(Isa::scalar))->factors(layout_.format).codes;
  }
  float scale(uint32_t panel, uint32_t k, uint32_t col) const {
    const std::byte* segment =
        scales.data() + panel * layout_.panel_scale_bytes() + k / layout_.segment_k * layout_.segment_scale_bytes();
    const auto float_at = [&](uint32_t idx) {
      float value;
      std::memcpy(&value, segment + idx * sizeof(float), sizeof(value));
      return value;
    };
    switch (layout_.scale) {
      case PackedScale::none: return 1.0F;
      case PackedScale::panel_f32: return float_at(0);
      case PackedScale::column_f32: return float_at(col);
      case PackedScale::column_e8m0: return e8m0_to_float(std::to_integer<uint8_t>(segment[col]));
    }
    return 0.0F;
  }

  std::vector<std::byte> codes;
  std::vector<std::byte> scales;

 private:
  PackedLayout layout_;
  std::vector<float> w_;
};

/// Every element of panel column (panel, col) against source row `row`.
void expect_row(const Packed& packed, uint32_t panel, uint32_t col, const WeightMatrix& m, uint32_t row) {
  for (uint32_t k = 0; k < m.num_cols; ++k) {
    ASSERT_TRUE(same_bits(packed.value(panel, k, col), source_value(m, row, k))) << panel << " " << col << " " << k;
    ASSERT_TRUE(same_bits(packed.scale(panel, k, col), source_scale(m, row, k))) << panel << " " << col << " " << k;
  }
}

void expect_round_trip(GateUpLayout layout, const MatrixSpec& spec, const LayerShape& shape) {
  const OwnedExpert expert(layout, spec, shape);
  const Result<ExpertLayouts> layouts = expert_layouts(expert.weights, shape, "expert 0");
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  Packed gemm1(layouts->gemm1);
  Packed gemm2(layouts->gemm2);
  pack_gemm1(expert.weights, shape, layouts->gemm1, gemm1.codes.data(), gemm1.scales.data());
  pack_gemm2(expert.weights, shape, layouts->gemm2, gemm2.codes.data(), gemm2.scales.data());
  gemm1.expand();
  gemm2.expand();
  for (uint32_t i = 0; i < shape.intermediate; ++i) {
    const uint32_t panel = i / kPanelCols * 2;
    const uint32_t col = i % kPanelCols;
    const ExpertWeights& w = expert.weights;
    switch (layout) {
      case GateUpLayout::separate:
        expect_row(gemm1, panel, col, w.gate, i);
        expect_row(gemm1, panel + 1, col, w.up, i);
        break;
      case GateUpLayout::concatenated:
        expect_row(gemm1, panel, col, w.gate_up, i);
        expect_row(gemm1, panel + 1, col, w.gate_up, shape.intermediate + i);
        break;
      case GateUpLayout::interleaved:
        expect_row(gemm1, panel, col, w.gate_up, 2 * i);
        expect_row(gemm1, panel + 1, col, w.gate_up, 2 * i + 1);
        break;
    }
  }
  for (uint32_t h = 0; h < shape.hidden; ++h) expect_row(gemm2, h / kPanelCols, h % kPanelCols, expert.weights.down, h);
}

TEST(PackTest, RoundTripOfEveryLayoutFormatAndBlock) {
  for (const LayerShape shape :
       {LayerShape{16, 16, 1, 1, 0}, LayerShape{144, 48, 1, 1, 0}, LayerShape{128, 272, 1, 1, 0}}) {
    for (const GateUpLayout layout : kAllLayouts) {
      for (const MatrixSpec& spec : kAllSpecs) expect_round_trip(layout, spec, shape);
    }
  }
}

TEST(PackTest, LayoutsAreAsDocumented) {
  const LayerShape shape{144, 48, 1, 1, 0};
  const auto layouts_of = [&](const MatrixSpec& spec) {
    const OwnedExpert expert(GateUpLayout::separate, spec, shape);
    return *expert_layouts(expert.weights, shape, "expert 0");
  };
  const ExpertLayouts mxfp4 = layouts_of(kMxfp4Spec);
  EXPECT_EQ(mxfp4.gemm1.num_panels, 6U);
  EXPECT_EQ(mxfp4.gemm1.num_k, 144U);
  EXPECT_EQ(mxfp4.gemm1.segment_k, 32U);
  EXPECT_EQ(mxfp4.gemm1.num_segments(), 5U);
  EXPECT_EQ(mxfp4.gemm1.panel_code_bytes(), 144U * 8);
  EXPECT_EQ(mxfp4.gemm2.num_panels, 9U);
  EXPECT_EQ(mxfp4.gemm2.num_k, 48U);
  EXPECT_EQ(mxfp4.gemm2.total_scale_bytes(), 9U * 2 * 16);
  const ExpertLayouts bf16 = layouts_of(kBf16Spec);
  EXPECT_EQ(bf16.gemm1.segment_k, 128U);
  EXPECT_EQ(bf16.gemm1.total_scale_bytes(), 0U);
  EXPECT_EQ(bf16.gemm1.total_code_bytes(), 6U * 144 * 32);
  EXPECT_EQ(layouts_of({WeightFormat::fp8_block, 128, 128, ScaleKind::f32}).gemm1.segment_k, 128U);
  EXPECT_EQ(layouts_of({WeightFormat::fp8_block, 32, 32, ScaleKind::f32}).gemm1.segment_k, 32U);
  EXPECT_EQ(layouts_of({WeightFormat::fp8_block, 1, 48, ScaleKind::f32}).gemm1.segment_k, 16U);
  EXPECT_EQ(layouts_of({WeightFormat::fp8_block, 128, 128, ScaleKind::f32}).gemm1.scale, PackedScale::panel_f32);
  EXPECT_EQ(layouts_of({WeightFormat::fp8_block, 8, 128, ScaleKind::f32}).gemm1.scale, PackedScale::column_f32);
  // Interleaved, a panel's gate rows span 32 rows of the matrix.
  const MatrixSpec blocks_of_16{WeightFormat::fp8_block, 16, 16, ScaleKind::f32};
  const OwnedExpert interleaved(GateUpLayout::interleaved, blocks_of_16, shape);
  const auto layouts = expert_layouts(interleaved.weights, shape, "expert 0");
  ASSERT_TRUE(layouts.ok());
  EXPECT_EQ(layouts->gemm1.scale, PackedScale::column_f32);
  EXPECT_EQ(layouts->gemm2.scale, PackedScale::panel_f32);
}

TEST(PackTest, NanCodesAreNoticed) {
  const LayerShape shape{32, 16, 1, 1, 0};
  const MatrixSpec spec{WeightFormat::fp8_block, 16, 16, ScaleKind::f32};
  for (const uint32_t code : {0x7EU, 0x7FU, 0xFEU, 0xFFU}) {
    OwnedExpert expert(GateUpLayout::separate, spec, shape);
    std::vector<std::byte> up(16 * 32, std::byte{0x38});
    std::vector<std::byte> gate = up;
    up[333] = static_cast<std::byte>(code);
    expert.weights.gate.values = gate;
    expert.weights.up.values = up;
    const auto layouts = expert_layouts(expert.weights, shape, "expert 0");
    ASSERT_TRUE(layouts.ok());
    std::vector<std::byte> codes(layouts->gemm1.total_code_bytes());
    std::vector<std::byte> scales(layouts->gemm1.total_scale_bytes());
    const PackedFacts found = pack_gemm1(expert.weights, shape, layouts->gemm1, codes.data(), scales.data());
    EXPECT_EQ(found.nan_codes, (code & 0x7FU) == 0x7FU ? NanCodes::some : NanCodes::none) << code;
  }
}

TEST(PackTest, TellsOfFarValues) {
  const LayerShape shape{32, 16, 1, 1, 0};
  const auto far_values_of = [&](const MatrixSpec& spec, auto change) {
    OwnedExpert expert(GateUpLayout::separate, spec, shape);
    std::vector<std::byte> values(expert.weights.down.values.size(), std::byte{0x33});
    std::vector<E8m0> scales(spec.format == WeightFormat::mxfp4 ? shape.hidden : 0, E8m0{127});
    change(values, scales);
    expert.weights.down.values = values;
    if (spec.format == WeightFormat::mxfp4) expert.weights.down.scales = std::span<const E8m0>(scales);
    const auto layouts = expert_layouts(expert.weights, shape, "expert 0");
    EXPECT_TRUE(layouts.ok()) << layouts.status().message();
    std::vector<std::byte> packed(layouts->gemm2.total_code_bytes());
    std::vector<std::byte> packed_scales(layouts->gemm2.total_scale_bytes());
    return pack_gemm2(expert.weights, shape, layouts->gemm2, packed.data(), packed_scales.data()).far_values;
  };
  for (const auto& [exponent, wanted] : {std::pair{26U, FarValues::some}, std::pair{27U, FarValues::none}}) {
    // The upper half of a word: exponent bits 14 to 7.
    EXPECT_EQ(far_values_of(kBf16Spec,
                            [&](auto& values, auto&) {
                              values[102] = static_cast<std::byte>(exponent << 7);
                              values[103] = static_cast<std::byte>(exponent >> 1 | 0x80U);
                            }),
              wanted);
  }
  EXPECT_EQ(far_values_of(kBf16Spec, [](auto& values, auto&) { values[100] = values[101] = std::byte{0}; }),
            FarValues::none);
  for (const auto& [scale, wanted] : {std::pair{26, FarValues::some}, std::pair{27, FarValues::none},
                                      std::pair{227, FarValues::none}, std::pair{228, FarValues::some}}) {
    EXPECT_EQ(far_values_of(kMxfp4Spec, [&](auto&, auto& scales) { scales[31].bits = static_cast<uint8_t>(scale); }),
              wanted)
        << scale;
  }
}

TEST(PackTest, BiasesOfEveryLayout) {
  const LayerShape shape{32, 16, 1, 1, 0};
  for (const GateUpLayout layout : kAllLayouts) {
    const OwnedExpert expert(layout, kBf16Spec, shape);
    std::vector<float> gate(16);
    std::vector<float> up(16);
    std::vector<float> down(32);
    pack_biases(expert.weights, shape, gate.data(), up.data(), down.data());
    for (uint32_t i = 0; i < 16; ++i) {
      // Source values count up from 0.5 in the order of the rows.
      const bool is_interleaved = layout == GateUpLayout::interleaved;
      EXPECT_EQ(gate[i], static_cast<float>(is_interleaved ? 2 * i : i) + 0.5F);
      EXPECT_EQ(up[i], static_cast<float>(is_interleaved ? 2 * i + 1 : 16 + i) + 0.5F);
    }
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(down[i], -static_cast<float>(i));
  }
}

TEST(PackTest, MissingBiasesAreZero) {
  const LayerShape shape{32, 16, 1, 1, 0};
  for (const GateUpLayout layout : kAllLayouts) {
    OwnedExpert expert(layout, kBf16Spec, shape);
    expert.weights.gate_bias = expert.weights.up_bias = expert.weights.gate_up_bias = expert.weights.down_bias = {};
    std::vector<float> gate(16, 7.0F);
    std::vector<float> up(16, 7.0F);
    std::vector<float> down(32, 7.0F);
    pack_biases(expert.weights, shape, gate.data(), up.data(), down.data());
    EXPECT_EQ(gate, std::vector<float>(16, 0.0F));
    EXPECT_EQ(up, std::vector<float>(16, 0.0F));
    EXPECT_EQ(down, std::vector<float>(32, 0.0F));
  }
}

}  // namespace
}  // namespace megamoe::cpu
