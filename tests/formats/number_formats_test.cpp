// Golden vectors. Expected values are literals, or formulas in double that share nothing with the code under test.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace megamoe {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr std::array<double, 16> kE2m1Values{0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
                                             -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0};

/// Value of an e4m3 code by the definition of the format.
double e4m3_by_definition(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15U);
  const int fraction = static_cast<int>(code & 7U);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1.0 + fraction / 8.0, exponent - 7);
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST(E2m1, EveryCode) {
  for (uint32_t code = 0; code < 16; ++code) {
    EXPECT_TRUE(same_bits(e2m1_to_float(code), static_cast<float>(kE2m1Values[code]))) << code;
    EXPECT_EQ(e2m1_from_float(static_cast<float>(kE2m1Values[code])), code);
  }
}

// cases.md: nibbles of a packed byte swapped, invisible to every statistic.
TEST(E2m1, LowNibbleIsTheEvenColumn) {
  constexpr uint8_t kPacked = 0x72;  // low 2 = 1.0, high 7 = 6.0
  EXPECT_EQ(e2m1_to_float(e2m1_even_column(kPacked)), 1.0F);
  EXPECT_EQ(e2m1_to_float(e2m1_odd_column(kPacked)), 6.0F);
  constexpr uint8_t kNegative = 0xB1;  // low 1 = 0.5, high 11 = -1.5
  EXPECT_EQ(e2m1_to_float(e2m1_even_column(kNegative)), 0.5F);
  EXPECT_EQ(e2m1_to_float(e2m1_odd_column(kNegative)), -1.5F);
}

TEST(E2m1, TiesGoToTheEvenCode) {
  struct Row {
    float value;
    uint8_t code;
  };
  constexpr std::array kRows{Row{0.25F, 0}, Row{0.75F, 2}, Row{1.25F, 2}, Row{1.75F, 4},
                             Row{2.5F, 4},  Row{3.5F, 6},  Row{5.0F, 6}};
  for (const Row& row : kRows) {
    EXPECT_EQ(e2m1_from_float(row.value), row.code) << row.value;
    EXPECT_EQ(e2m1_from_float(-row.value), row.code | 8U) << -row.value;
    const float below = std::nextafter(row.value, 0.0F);
    const float above = std::nextafter(row.value, kInf);
    EXPECT_LT(e2m1_to_float(e2m1_from_float(below)), row.value);
    EXPECT_GT(e2m1_to_float(e2m1_from_float(above)), row.value);
  }
}

TEST(E2m1, Saturates) {
  for (const float value : {6.0F, 6.5F, 7.0F, 1e30F, kInf}) {
    EXPECT_EQ(e2m1_from_float(value), 7) << value;
    EXPECT_EQ(e2m1_from_float(-value), 15) << value;
  }
}

TEST(E4m3, EveryCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7FU) == 0x7FU) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_TRUE(same_bits(value, static_cast<float>(e4m3_by_definition(code)))) << code;
    EXPECT_EQ(e4m3_from_float(value), code);
  }
}

TEST(E4m3, Literals) {
  EXPECT_EQ(e4m3_to_float(0x00), 0.0F);
  EXPECT_TRUE(std::signbit(e4m3_to_float(0x80)));
  EXPECT_EQ(e4m3_to_float(0x01), 0.001953125F);
  EXPECT_EQ(e4m3_to_float(0x07), 0.013671875F);
  EXPECT_EQ(e4m3_to_float(0x08), 0.015625F);
  EXPECT_EQ(e4m3_to_float(0x38), 1.0F);
  EXPECT_EQ(e4m3_to_float(0x39), 1.125F);
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0F);
  EXPECT_EQ(e4m3_to_float(0xFE), -448.0F);
}

TEST(E4m3, TiesGoToTheEvenCode) {
  for (uint32_t code = 0; code < 0x7E; ++code) {
    const double low = e4m3_by_definition(code);
    const double high = e4m3_by_definition(code + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(e4m3_from_float(middle), even) << code;
    EXPECT_EQ(e4m3_from_float(-middle), even | 0x80U) << code;
    EXPECT_EQ(e4m3_from_float(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(e4m3_from_float(std::nextafter(middle, kInf)), code + 1);
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  for (const float value : {448.0F, 449.0F, 464.0F, 480.0F, 1e30F, kInf}) {
    EXPECT_EQ(e4m3_from_float(value), 0x7E) << value;
    EXPECT_EQ(e4m3_from_float(-value), 0xFE) << value;
  }
  EXPECT_EQ(e4m3_from_float(kNan) & 0x7F, 0x7F);
  EXPECT_EQ(e4m3_from_float(-kNan) & 0x7F, 0x7F);
}

TEST(E4m3, EveryE2m1ValueIsExact) {
  for (uint32_t code = 0; code < 16; ++code) {
    EXPECT_TRUE(same_bits(e4m3_to_float(e4m3_from_float(e2m1_to_float(code))), e2m1_to_float(code))) << code;
  }
}

TEST(E8m0, EveryCode) {
  for (uint32_t code = 0; code < 255; ++code) {
    EXPECT_EQ(static_cast<double>(e8m0_to_float(static_cast<uint8_t>(code))),
              std::ldexp(1.0, static_cast<int>(code) - 127));
    EXPECT_EQ(e8m0_from_power_of_two(static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127))), code);
  }
}

TEST(E8m0, Case11Extremes) {
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127F);
  EXPECT_EQ(e8m0_to_float(1), 0x1p-126F);
  EXPECT_EQ(e8m0_to_float(127), 1.0F);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127F);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(E8m0, PowerOfTwoCeil) {
  EXPECT_EQ(power_of_two_ceil(1.0F), 1.0F);
  EXPECT_EQ(power_of_two_ceil(std::nextafter(1.0F, 2.0F)), 2.0F);
  EXPECT_EQ(power_of_two_ceil(3.0F), 4.0F);
  EXPECT_EQ(power_of_two_ceil(0x1p-126F), 0x1p-126F);
  EXPECT_EQ(power_of_two_ceil(0.7F), 1.0F);
}

TEST(Bf16, WidensExactly) {
  EXPECT_EQ(bf16_to_float(0x3F80), 1.0F);
  EXPECT_EQ(bf16_to_float(0xC040), -3.0F);
  EXPECT_EQ(bf16_to_float(0x7F80), kInf);
  EXPECT_EQ(bf16_to_float(0x0001), 0x1p-133F);
  EXPECT_TRUE(std::isnan(bf16_to_float(0x7FC0)));
}

TEST(Bf16, EveryCodeComesBack) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = bf16_to_float(static_cast<uint16_t>(code));
    const uint16_t back = bf16_from_float(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(back))) << code;
    } else {
      EXPECT_EQ(back, code);
    }
  }
}

TEST(Bf16, TiesGoToEven) {
  EXPECT_EQ(bf16_from_float(0x1.01p0F), 0x3F80);  // halfway between 1 and 1 + 2^-7
  EXPECT_EQ(bf16_from_float(0x1.03p0F), 0x3F82);  // halfway between 1 + 2^-7 and 1 + 2^-6
  EXPECT_EQ(bf16_from_float(std::nextafter(0x1.01p0F, 2.0F)), 0x3F81);
  EXPECT_EQ(bf16_from_float(std::nextafter(0x1.03p0F, 0.0F)), 0x3F81);
  EXPECT_EQ(bf16_from_float(-0x1.01p0F), 0xBF80);
}

TEST(Bf16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16_from_float(-kInf), 0xFF80);
  // A NaN whose payload stands in the lower half only must not become infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(bf16_from_float(bits_float(0x7F800001U)))));
}

}  // namespace
}  // namespace megamoe
