// Every code of every format, on every instruction set.

#include <array>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "kernels_testing.hpp"

namespace megamoe::cpu {
namespace {

class ExpandTest : public KernelsTest {
 protected:
  /// Expanded values of `codes`, from memory that is aligned to nothing.
  std::vector<float> expand(WeightFormat format, const std::vector<uint8_t>& codes, uint32_t num_k) {
    std::vector<uint8_t> shifted(codes.size() + 1);
    std::copy(codes.begin(), codes.end(), shifted.begin() + 1);
    std::vector<float> w(size_t{num_k} * kPanelCols + 1, 77.0F);
    kernels_.expand(format, reinterpret_cast<const std::byte*>(shifted.data() + 1), num_k, w.data());
    EXPECT_EQ(w.back(), 77.0F) << "wrote beyond the panel";
    w.pop_back();
    return w;
  }
};

TEST_P(ExpandTest, EveryE4m3CodeInEveryColumn) {
  for (uint32_t first = 0; first < kPanelCols; ++first) {
    std::vector<uint8_t> codes(256);
    for (uint32_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i + first);
    const std::vector<float> w = expand(WeightFormat::fp8_block, codes, 16);
    for (uint32_t i = 0; i < 256; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(w[i]), std::bit_cast<uint32_t>(e4m3_to_float(codes[i]))) << +codes[i];
    }
  }
}

TEST_P(ExpandTest, GoldenE4m3) {
  std::vector<uint8_t> codes(32, 0);
  const std::array<std::pair<uint8_t, float>, 8> golden{{{0x01, 0x1p-9F},
                                                         {0x07, 0x1.Cp-7F},
                                                         {0x08, 0x1p-6F},
                                                         {0x38, 1.0F},
                                                         {0x7E, 448.0F},
                                                         {0xFE, -448.0F},
                                                         {0x80, -0.0F},
                                                         {0xB9, -1.125F}}};
  for (size_t i = 0; i < golden.size(); ++i) codes[i] = golden[i].first;
  codes[8] = 0x7F;
  codes[9] = 0xFF;
  const std::vector<float> w = expand(WeightFormat::fp8_block, codes, 2);
  for (size_t i = 0; i < golden.size(); ++i) EXPECT_TRUE(same_bits(w[i], golden[i].second)) << i;
  EXPECT_TRUE(w[8] != w[8]);
  EXPECT_TRUE(w[9] != w[9]);
}

TEST_P(ExpandTest, EveryPairOfE2m1CodesInEveryColumn) {
  for (uint32_t first = 0; first < kPanelCols; ++first) {
    std::vector<uint8_t> codes(256);
    for (uint32_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i + first);
    const std::vector<float> w = expand(WeightFormat::mxfp4, codes, 32);
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t even_k = i / kPanelCols * 2;
      const uint32_t col = i % kPanelCols;
      ASSERT_TRUE(same_bits(w[even_k * kPanelCols + col], e2m1_to_float(codes[i] & 15U))) << +codes[i];
      ASSERT_TRUE(same_bits(w[(even_k + 1) * kPanelCols + col], e2m1_to_float(codes[i] >> 4))) << +codes[i];
    }
  }
}

TEST_P(ExpandTest, LowNibbleIsTheEvenColumnOfK) {
  const std::vector<uint8_t> codes(16, 0x7A);  // low nibble 10 = -1, high nibble 7 = 6
  const std::vector<float> w = expand(WeightFormat::mxfp4, codes, 2);
  EXPECT_EQ(w[0], -1.0F);
  EXPECT_EQ(w[kPanelCols], 6.0F);
}

TEST_P(ExpandTest, EveryBf16Code) {
  std::vector<uint8_t> codes(65536 * 2);
  for (uint32_t i = 0; i < 65536; ++i) {
    codes[2 * i] = static_cast<uint8_t>(i);
    codes[2 * i + 1] = static_cast<uint8_t>(i >> 8);
  }
  const std::vector<float> w = expand(WeightFormat::bf16, codes, 4096);
  for (uint32_t i = 0; i < 65536; ++i) ASSERT_EQ(std::bit_cast<uint32_t>(w[i]), i << 16);
}

TEST_P(ExpandTest, DecodeRowOfAnyLength) {
  for (uint32_t num_cols = 0; num_cols <= 70; ++num_cols) {
    std::vector<uint8_t> codes(num_cols);
    for (uint32_t i = 0; i < num_cols; ++i) codes[i] = static_cast<uint8_t>(i * 37 + num_cols);
    std::vector<float> values(num_cols + 1, 77.0F);
    kernels_.decode_row(codes.data(), num_cols, values.data());
    for (uint32_t i = 0; i < num_cols; ++i) ASSERT_TRUE(same_bits(values[i], e4m3_to_float(codes[i])));
    ASSERT_EQ(values.back(), 77.0F);
  }
}

MM_FOR_EVERY_ISA(ExpandTest);

}  // namespace
}  // namespace megamoe::cpu
