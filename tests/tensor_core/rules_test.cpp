// The rules of emu/tensor_core/dot.hpp one by one, in numbers that can be checked by hand. Each was seen on an H200:
// the recordings hold thousands of instances.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "emu/tensor_core/dot.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"

namespace megamoe {
namespace {

using ptx::MmaFormat;
using ptx::ScaleD;
using ptx::Sign;

struct Pair {
  float a, b;
};

/// Bits of D[0, 0] with these products (all others are +0 * +0) and this accumulator.
uint32_t result_of(MmaFormat format, std::initializer_list<Pair> pairs, float c, Sign a_sign = Sign::plus,
                   ScaleD scale_d = ScaleD::accumulate) {
  std::vector<uint8_t> a(size_t{64} * 32);
  std::vector<uint8_t> b(size_t{8} * 32);
  size_t k = 0;
  for (const Pair& pair : pairs) {
    if (format == MmaFormat::e4m3) {
      a[k] = e4m3_from_float(pair.a);
      b[k++] = e4m3_from_float(pair.b);
      continue;
    }
    const uint16_t codes[2] = {bf16_from_float(pair.a), bf16_from_float(pair.b)};
    std::memcpy(&a[2 * k], &codes[0], 2);
    std::memcpy(&b[2 * k++], &codes[1], 2);
  }
  std::vector<uint32_t> d(size_t{64} * 8);
  d[0] = float_bits(c);
  emu::tensor_core::multiply_rows({.format = format, .n = 8, .a_sign = a_sign}, scale_d, a.data(), b.data(), d.data());
  return d[0];
}

float e4m3(std::initializer_list<Pair> pairs, float c) { return bits_float(result_of(MmaFormat::e4m3, pairs, c)); }
float bf16(std::initializer_list<Pair> pairs, float c) { return bits_float(result_of(MmaFormat::bf16, pairs, c)); }

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TensorCoreRules, TermsAreTruncatedTowardZeroAgainstTheLargest) {
  EXPECT_EQ(e4m3({{1, 1}}, 0x1p-13F), 1 + 0x1p-13F);
  EXPECT_EQ(e4m3({{1, 1}}, 0x1.8p-13F), 1 + 0x1p-13F);
  EXPECT_EQ(e4m3({{1, 1}}, 0x1.FFp-14F), 1.0F);
  EXPECT_EQ(e4m3({{1, 1}}, -0x1.FFp-14F), 1.0F) << "toward zero, not down";
  EXPECT_EQ(bf16({{1, 1}, {0x1p-25F, 1}, {-1, 1}}, 0), 0x1p-25F);
  EXPECT_EQ(bf16({{1, 1}, {0x1p-26F, 1}, {-1, 1}}, 0), 0.0F);
}

TEST(TensorCoreRules, ProductsAreNotRenormalised) {
  // 1.75 * 1.75 = 3.0625 counts as exponent 0, so 2^-13 survives beside it; an accumulator of 3.0625 has exponent 1.
  EXPECT_EQ(e4m3({{1.75F, 1.75F}, {-1.75F, 1.75F}}, 0x1p-13F), 0x1p-13F);
  EXPECT_EQ(e4m3({{-1.75F, 1.75F}, {0x1p-7F, 0x1p-6F}}, 3.0625F), 0.0F);
}

TEST(TensorCoreRules, SubnormalOperandsKeepTheSmallestNormalExponent) {
  // 2^-9 is subnormal in e4m3: exponent -6. Beside 2^-9 * 256, exponent 2, terms below 2^-11 vanish.
  EXPECT_EQ(e4m3({{0x1p-9F, 256}, {-0x1p-9F, 256}}, 0x1p-11F), 0x1p-11F);
  EXPECT_EQ(e4m3({{0x1p-9F, 256}, {-0x1p-9F, 256}}, 0x1p-12F), 0.0F);
}

TEST(TensorCoreRules, ResultKeeps13Or23FractionBits) {
  EXPECT_EQ(e4m3({}, 0x1.000FFEp0F), 0x1.0008p0F);
  EXPECT_EQ(e4m3({}, -0x1.000FFEp0F), -0x1.0008p0F);
  EXPECT_EQ(bf16({}, 0x1.FFFFFEp0F), 0x1.FFFFFEp0F);
  EXPECT_EQ(bf16({{0x1p24F, 1}, {1, 1}}, 0), 0x1p24F);
}

TEST(TensorCoreRules, ZeroIsPositive) {
  for (const MmaFormat format : {MmaFormat::e4m3, MmaFormat::bf16}) {
    EXPECT_EQ(result_of(format, {}, -0.0F), 0U);
    EXPECT_EQ(result_of(format, {{1, -1}, {1, 1}}, -0.0F), 0U);
  }
  EXPECT_EQ(result_of(MmaFormat::bf16, {{-0x1p-100F, 0x1p-100F}}, -0.0F), 0U);
}

TEST(TensorCoreRules, OverflowIsInfinite) {
  EXPECT_EQ(bf16({{0x1p64F, 0x1p64F}}, 0), kInfinity);
  EXPECT_EQ(bf16({{-0x1p64F, 0x1p64F}}, 0), -kInfinity);
  EXPECT_EQ(bf16({{0x1p64F, 0x1p64F}, {-0x1p64F, 0x1p63F}}, 0), 0x1p127F) << "only the sum counts";
  EXPECT_EQ(bf16({{0x1p100F, 0x1p100F}, {-0x1p100F, 0x1p100F}}, 1), 0.0F) << "beside 2^200 nothing else remains";
  EXPECT_EQ(e4m3({{448, 448}}, std::numeric_limits<float>::max()), 0x1.FFF8p127F);
}

TEST(TensorCoreRules, UnderflowIsGradualAndTruncated) {
  EXPECT_EQ(bf16({{0x1p-75F, 0x1p-74F}}, 0), 0x1p-149F);
  EXPECT_EQ(bf16({{0x1.8p-75F, 0x1p-74F}}, 0), 0x1p-149F);
  EXPECT_EQ(bf16({{0x1p-75F, 0x1p-75F}}, 0), 0.0F);
  EXPECT_EQ(bf16({{0x1p-75F, 0x1p-75F}, {0x1p-75F, 0x1p-75F}}, 0), 0x1p-149F) << "below FP32, but above 2^-158";
  EXPECT_EQ(bf16({}, 0x1p-149F), 0x1p-149F);
  EXPECT_EQ(e4m3({}, 0x1p-139F), 0x1p-139F);
  EXPECT_EQ(e4m3({}, 0x1p-140F), 0.0F);
}

TEST(TensorCoreRules, NothingCountsBelow2ToMinus158) {
  // Two halves of 2^-158 would make one unit, and eat into 2^-149.
  EXPECT_EQ(bf16({{0x1p-75F, 0x1p-74F}, {-0x1p-80F, 0x1p-79F}, {-0x1p-80F, 0x1p-79F}}, 0), 0x1p-149F);
  EXPECT_EQ(bf16({{0x1p-75F, 0x1p-74F}, {-0x1p-79F, 0x1p-79F}}, 0), 0.0F);
}

TEST(TensorCoreRules, NanAndInfinity) {
  constexpr uint32_t kOneNan = 0x7FFFFFFF;
  EXPECT_EQ(result_of(MmaFormat::e4m3, {{kNan, 0}}, 1), kOneNan);
  EXPECT_EQ(result_of(MmaFormat::e4m3, {{1, 1}}, -kNan), kOneNan);
  EXPECT_EQ(result_of(MmaFormat::bf16, {{kNan, 1}}, kInfinity), kOneNan);
  EXPECT_EQ(result_of(MmaFormat::bf16, {{kInfinity, 0}}, 1), kOneNan);
  EXPECT_EQ(result_of(MmaFormat::bf16, {{kInfinity, 1}, {-kInfinity, 1}}, 1), kOneNan);
  EXPECT_EQ(result_of(MmaFormat::bf16, {{kInfinity, 1}}, -kInfinity), kOneNan);
  EXPECT_EQ(bf16({{kInfinity, -1}}, 1), -kInfinity);
  EXPECT_EQ(bf16({{kInfinity, -0x1p-120F}}, -kInfinity), -kInfinity);
  EXPECT_EQ(e4m3({{448, 448}}, -kInfinity), -kInfinity);
  EXPECT_EQ(bf16({{0x1p127F, 0x1p127F}}, -kInfinity), -kInfinity) << "a finite product never counts as infinite";
}

TEST(TensorCoreRules, SignsAndScaleD) {
  EXPECT_EQ(bits_float(result_of(MmaFormat::e4m3, {{2, 3}}, 1, Sign::minus)), -5.0F);
  EXPECT_EQ(bits_float(result_of(MmaFormat::bf16, {{kInfinity, 3}}, 1, Sign::minus)), -kInfinity);
  EXPECT_EQ(result_of(MmaFormat::e4m3, {{kNan, 3}}, 1, Sign::minus), 0x7FFFFFFFU);
  EXPECT_EQ(bits_float(result_of(MmaFormat::e4m3, {{2, 3}}, kNan, Sign::plus, ScaleD::overwrite)), 6.0F);
}

}  // namespace
}  // namespace megamoe
