// Every code of every format, on every instruction set.

#include "panel_testing.hpp"

namespace megamoe::cpu {
namespace {

class ExpandTest : public KernelsTest {
 protected:
  /// Expands one panel of `num_k` columns whose code at (k, col) is code_of(k, col), and compares every value.
  template <class CodeOf>
  void expect_values(WeightFormat format, uint32_t num_k, CodeOf code_of) {
    PanelCodes panel(format, 1, num_k);
    for (uint32_t k = 0; k < num_k; ++k) {
      for (uint32_t col = 0; col < kPanelCols; ++col) panel.set(0, k, col, code_of(k, col));
    }
    std::vector<float> w(size_t{num_k} * kPanelCols + 1, 77.0F);
    kernels_.expand(format, panel.data(), num_k, w.data());
    EXPECT_EQ(w.back(), 77.0F) << "wrote beyond the panel";
    for (uint32_t k = 0; k < num_k; ++k) {
      for (uint32_t col = 0; col < kPanelCols; ++col) {
        ASSERT_TRUE(same_bits(w[k * kPanelCols + col] * kernels_.factors(format).codes, panel.value(0, k, col)))
            << "k " << k << " column " << col << " code " << code_of(k, col);
      }
    }
  }
};

TEST_P(ExpandTest, EveryE4m3CodeInEveryColumn) {
  expect_values(WeightFormat::fp8_block, 256, [](uint32_t k, uint32_t col) { return (k + col) & 255U; });
}

TEST_P(ExpandTest, EveryPairOfE2m1CodesInEveryColumn) {
  expect_values(WeightFormat::mxfp4, 2048, [](uint32_t k, uint32_t col) {
    // Over 256 words, the codes of columns j and 4 + j of K take every pair.
    const uint32_t pair = (k / 8 + col * 17) & 255U;
    return k % 8 < 4 ? pair & 15U : pair >> 4;
  });
}

TEST_P(ExpandTest, EveryBf16Code) {
  expect_values(WeightFormat::bf16, 4096, [](uint32_t k, uint32_t col) { return k * kPanelCols + col; });
}

TEST_P(ExpandTest, GoldenValues) {
  const std::pair<uint32_t, float> golden[] = {{0x01, 0x1p-9F}, {0x07, 0x1.Cp-7F}, {0x08, 0x1p-6F}, {0x38, 1.0F},
                                               {0x7E, 448.0F},  {0xFE, -448.0F},   {0x80, -0.0F},   {0xB9, -1.125F}};
  for (const auto& [code, value] : golden) {
    PanelCodes panel(WeightFormat::fp8_block, 1, 8);
    panel.set(0, 6, 3, code);
    float w[8 * kPanelCols];
    kernels_.expand(WeightFormat::fp8_block, panel.data(), 8, w);
    EXPECT_TRUE(same_bits(w[6 * kPanelCols + 3] * kernels_.fp8.codes, value)) << code;
    EXPECT_EQ(w[6 * kPanelCols + 4], 0.0F);
  }
}

TEST_P(ExpandTest, DecodeRowOfAnyLength) {
  for (const float factor : {1.0F, kMovedE4m3.activations}) {
    for (uint32_t num_cols = 0; num_cols <= 70; ++num_cols) {
      std::vector<uint8_t> codes(num_cols);
      for (uint32_t i = 0; i < num_cols; ++i) codes[i] = static_cast<uint8_t>(i * 37 + num_cols);
      std::vector<float> values(num_cols + 1, 77.0F);
      kernels_.decode_row(codes.data(), num_cols, factor, values.data());
      for (uint32_t i = 0; i < num_cols; ++i) ASSERT_TRUE(same_bits(values[i], e4m3_to_float(codes[i]) * factor));
      ASSERT_EQ(values.back(), 77.0F);
    }
  }
}

MM_FOR_EVERY_ISA(ExpandTest);

}  // namespace
}  // namespace megamoe::cpu
