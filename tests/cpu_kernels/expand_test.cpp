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
    std::vector<uint32_t> w(size_t{num_k} / kernels_.step_k * kPanelCols + 1, 77);
    kernels_.expand(format, panel.data(), num_k, w.data());
    EXPECT_EQ(w.back(), 77U) << "wrote beyond the panel";
    for (uint32_t k = 0; k < num_k; ++k) {
      for (uint32_t col = 0; col < kPanelCols; ++col) {
        const float value = operand_value(kernels_, format, w.data(), k, kPanelCols, col);
        ASSERT_TRUE(same_bits(value * kernels_.factors(format).codes, panel.value(0, k, col)))
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
    uint32_t w[8 * kPanelCols];
    kernels_.expand(WeightFormat::fp8_block, panel.data(), 8, w);
    const auto value_at = [&](uint32_t col) {
      return operand_value(kernels_, WeightFormat::fp8_block, w, 6, kPanelCols, col);
    };
    EXPECT_TRUE(same_bits(value_at(3) * kernels_.fp8.codes, value)) << code;
    EXPECT_EQ(value_at(4), 0.0F);
  }
}

TEST_P(ExpandTest, PrepareRowOfAnyLength) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    for (uint32_t num_cols = 16; num_cols <= 272; num_cols += 16) {
      std::vector<uint8_t> codes(num_cols);
      for (uint32_t i = 0; i < num_cols; ++i) codes[i] = static_cast<uint8_t>(i * 37 + num_cols);
      const uint32_t filled_cols = kernels_.step_k == 1 ? num_cols : (num_cols + 31) / 32 * 32;
      std::vector<uint32_t> a(filled_cols / kernels_.step_k + 1, 77);
      kernels_.prepare_row(format, codes.data(), num_cols, a.data());
      for (uint32_t i = 0; i < filled_cols; ++i) {
        const float code_value = i < num_cols ? e4m3_to_float(codes[i]) : 0.0F;
        const float value = operand_value(kernels_, format, a.data(), i, 1, 0);
        ASSERT_TRUE(same_bits(value, code_value * kernels_.factors(format).activations)) << i;
      }
      ASSERT_EQ(a.back(), 77U) << "wrote beyond the row";
    }
  }
}

MM_FOR_EVERY_ISA(ExpandTest);

}  // namespace
}  // namespace megamoe::cpu
