#include "emu/tensor_core/dot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"

namespace megamoe::emu::tensor_core {

namespace {

using ptx::MmaFormat;

constexpr uint32_t kLanes = 8;  // columns that are computed side by side
constexpr int16_t kZeroExponent = -1000;
constexpr int16_t kLowestTop = -133;
constexpr uint32_t kNanBits = 0x7FFFFFFF;
constexpr uint32_t kInfinityBits = 0x7F800000;
constexpr uint32_t kSignBit = 0x80000000;

// Vectors of the compiler, not of the machine: SSE2 is enough, and what there is gets used.
using Shorts = int16_t __attribute__((vector_size(kLanes * sizeof(int16_t))));
using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

/// How a format is computed. Real holds every product exactly.
template <MmaFormat kFormat>
struct Rules;
template <>
struct Rules<MmaFormat::e4m3> {
  using Code = uint8_t;
  using Real = float;
  using Reals = Floats;
  static constexpr int kAddingBits = 13;
  static constexpr int kResultBits = 13;
  static constexpr uint32_t kNumTermsPerSum = 32;  // as many as a 32-bit sum holds
  static constexpr int kMaxInnerScale = 100;       // keeps 2^-unit finite where no product is non-zero anyway
  static constexpr uint32_t kFractionBits = 3;
  static constexpr uint32_t kExponentMask = 15;
  static constexpr int kBias = 7;
  static bool is_special(uint32_t code) { return (code & 0x7FU) == kE4m3Nan; }
  static bool is_nan(uint32_t code) { return is_special(code); }
  static Real value(uint32_t code) { return e4m3_to_float(static_cast<uint8_t>(code)); }
};
template <>
struct Rules<MmaFormat::bf16> {
  using Code = uint16_t;
  using Real = double;
  using Reals = Doubles;
  static constexpr int kAddingBits = 25;
  static constexpr int kResultBits = 23;
  static constexpr uint32_t kNumTermsPerSum = 8;
  static constexpr int kMaxInnerScale = 1000;
  static constexpr uint32_t kFractionBits = 7;
  static constexpr uint32_t kExponentMask = 255;
  static constexpr int kBias = 127;
  static bool is_special(uint32_t code) { return (code & 0x7F80U) == 0x7F80U; }
  static bool is_nan(uint32_t code) { return (code & 0x7FFFU) > 0x7F80U; }
  static Real value(uint32_t code) { return bf16_to_float(static_cast<uint16_t>(code)); }
};

template <MmaFormat kFormat>
constexpr uint32_t kNumK = ptx::wgmma_k(kFormat);

/// One operand code as the arithmetic wants it; NaN and infinity count as zero here and are looked at apart.
template <MmaFormat kFormat>
struct Operand {
  typename Rules<kFormat>::Real value;
  int16_t exponent;
};

template <MmaFormat kFormat>
Operand<kFormat> operand_of(uint32_t code) {
  using Format = Rules<kFormat>;
  const typename Format::Real value = Format::is_special(code) ? 0 : Format::value(code);
  if (value == 0) return {0, kZeroExponent};
  const auto field = static_cast<int>((code >> Format::kFractionBits) & Format::kExponentMask);
  return {value, static_cast<int16_t>(std::max(field, 1) - Format::kBias)};
}

template <MmaFormat kFormat>
uint32_t code_at(const uint8_t* row, uint32_t k) {
  typename Rules<kFormat>::Code code;
  std::memcpy(&code, row + k * sizeof(code), sizeof(code));
  return code;
}

template <MmaFormat kFormat>
bool has_special(const uint8_t* row) {
  bool result = false;
  for (uint32_t k = 0; k < kNumK<kFormat>; ++k) result |= Rules<kFormat>::is_special(code_at<kFormat>(row, k));
  return result;
}

/// All rows of A.
template <MmaFormat kFormat>
struct RowsOfA {
  std::array<std::array<Operand<kFormat>, kNumK<kFormat>>, ptx::kWgmmaRows> operands;
  std::array<bool, ptx::kWgmmaRows> is_special;
};

/// Eight columns of B.
template <MmaFormat kFormat>
struct ColumnsOfB {
  std::array<typename Rules<kFormat>::Reals, kNumK<kFormat>> values;
  std::array<Shorts, kNumK<kFormat>> exponents;
  std::array<bool, kLanes> is_special;
};

template <MmaFormat kFormat>
void expand(const uint8_t* a, bool negates, RowsOfA<kFormat>& rows) {
  for (uint32_t row = 0; row < ptx::kWgmmaRows; ++row) {
    const uint8_t* codes = a + size_t{row} * ptx::kWgmmaOperandBytes;
    rows.is_special[row] = has_special<kFormat>(codes);
    for (uint32_t k = 0; k < kNumK<kFormat>; ++k) {
      rows.operands[row][k] = operand_of<kFormat>(code_at<kFormat>(codes, k));
      if (negates) rows.operands[row][k].value = -rows.operands[row][k].value;
    }
  }
}

template <MmaFormat kFormat>
void expand(const uint8_t* b, ColumnsOfB<kFormat>& columns) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint8_t* codes = b + size_t{lane} * ptx::kWgmmaOperandBytes;
    columns.is_special[lane] = has_special<kFormat>(codes);
    for (uint32_t k = 0; k < kNumK<kFormat>; ++k) {
      const Operand<kFormat> operand = operand_of<kFormat>(code_at<kFormat>(codes, k));
      columns.values[k][lane] = operand.value;
      columns.exponents[k][lane] = operand.exponent;
    }
  }
}

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52U); }

int exponent_of(uint32_t c) {
  if ((c & ~kSignBit) == 0) return kZeroExponent;
  return std::max(static_cast<int>(c >> 23U & 0xFFU), 1) - 127;
}

/// Rule 4. `sum` is exact.
template <int kResultBits>
uint32_t rounded_to_fp32(double sum) {
  const uint64_t bits = std::bit_cast<uint64_t>(sum) & ~((uint64_t{1} << (52 - kResultBits)) - 1);
  const double value = std::bit_cast<double>(bits);
  const double magnitude = value < 0 ? -value : value;
  if (magnitude >= 0x1p-126) return float_bits(static_cast<float>(value));
  const auto subnormal = static_cast<uint32_t>(magnitude * 0x1p149);
  return subnormal == 0 || value > 0 ? subnormal : subnormal | kSignBit;
}

/// Rule 5, for a result that has a NaN or an infinity among its terms.
template <MmaFormat kFormat>
uint32_t special_result(const uint8_t* a, const uint8_t* b, bool negates, uint32_t c) {
  using Format = Rules<kFormat>;
  bool is_nan = (c & ~kSignBit) > kInfinityBits;
  std::array<bool, 2> has_infinity = {c == kInfinityBits, c == (kInfinityBits | kSignBit)};  // by sign
  for (uint32_t k = 0; k < kNumK<kFormat>; ++k) {
    const uint32_t x = code_at<kFormat>(a, k);
    const uint32_t y = code_at<kFormat>(b, k);
    if (!Format::is_special(x) && !Format::is_special(y)) continue;
    const bool has_zero = (!Format::is_special(x) && Format::value(x) == 0) ||  //
                          (!Format::is_special(y) && Format::value(y) == 0);
    is_nan |= Format::is_nan(x) || Format::is_nan(y) || has_zero;
    constexpr uint32_t kSignShift = 8 * sizeof(typename Format::Code) - 1;
    has_infinity[((x ^ y) >> kSignShift & 1U) ^ (negates ? 1U : 0U)] = true;
  }
  if (is_nan || (has_infinity[0] && has_infinity[1])) return kNanBits;
  return has_infinity[0] ? kInfinityBits : kInfinityBits | kSignBit;
}

/// Rules 1 to 4 for one row and eight columns. `c` is finite where the result is used.
template <MmaFormat kFormat>
void sum_products(const std::array<Operand<kFormat>, kNumK<kFormat>>& row, const ColumnsOfB<kFormat>& columns,
                  const uint32_t* c, uint32_t* d) {
  using Format = Rules<kFormat>;
  Shorts top = {};
  top += kLowestTop;
  for (uint32_t k = 0; k < kNumK<kFormat>; ++k) {
    const Shorts exponents = columns.exponents[k] + row[k].exponent;
    top = exponents > top ? exponents : top;
  }

  std::array<double, kLanes> scale;  // 1 / unit
  typename Format::Reals inner_scale;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    top[lane] = std::max<int16_t>(top[lane], static_cast<int16_t>(exponent_of(c[lane])));
    const int scale_exponent = Format::kAddingBits - top[lane];
    scale[lane] = power_of_two(scale_exponent);
    inner_scale[lane] =
        static_cast<typename Format::Real>(power_of_two(std::min(scale_exponent, Format::kMaxInnerScale)));
  }

  std::array<double, kLanes> total = {};
  for (uint32_t first = 0; first < kNumK<kFormat>; first += Format::kNumTermsPerSum) {
    Ints sum = {};
    for (uint32_t k = first; k < first + Format::kNumTermsPerSum; ++k) {
      sum += __builtin_convertvector(columns.values[k] * row[k].value * inner_scale, Ints);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) total[lane] += sum[lane];
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const bool is_finite = (c[lane] & kInfinityBits) != kInfinityBits;
    const double addend = is_finite ? static_cast<double>(bits_float(c[lane])) * scale[lane] : 0.0;
    const double truncated = static_cast<double>(static_cast<int32_t>(addend));
    d[lane] =
        rounded_to_fp32<Format::kResultBits>((total[lane] + truncated) * power_of_two(top[lane] - Format::kAddingBits));
  }
}

template <MmaFormat kFormat>
void multiply_format(const ptx::WgmmaSpec& spec, ptx::ScaleD scale_d, const uint8_t* a, const uint8_t* b, uint32_t* d) {
  const bool negates = spec.a_sign != spec.b_sign;
  static thread_local RowsOfA<kFormat> rows;  // too large for the stack of an emulated lane
  expand<kFormat>(a, negates, rows);
  ColumnsOfB<kFormat> columns;
  for (uint32_t column = 0; column < spec.n; column += kLanes) {
    const uint8_t* b_codes = b + size_t{column} * ptx::kWgmmaOperandBytes;
    expand<kFormat>(b_codes, columns);
    for (uint32_t row = 0; row < ptx::kWgmmaRows; ++row) {
      uint32_t* d_row = d + size_t{row} * spec.n + column;
      std::array<uint32_t, kLanes> c = {};
      if (scale_d == ptx::ScaleD::accumulate) std::copy_n(d_row, kLanes, c.begin());
      sum_products<kFormat>(rows.operands[row], columns, c.data(), d_row);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const bool is_special = (c[lane] & kInfinityBits) == kInfinityBits;
        if (!is_special && !rows.is_special[row] && !columns.is_special[lane]) continue;
        d_row[lane] = special_result<kFormat>(a + size_t{row} * ptx::kWgmmaOperandBytes,
                                              b_codes + size_t{lane} * ptx::kWgmmaOperandBytes, negates, c[lane]);
      }
    }
  }
}

}  // namespace

void multiply_rows(const ptx::WgmmaSpec& spec, ptx::ScaleD scale_d, const uint8_t* a, const uint8_t* b, uint32_t* d) {
  if (spec.format == MmaFormat::e4m3) {
    multiply_format<MmaFormat::e4m3>(spec, scale_d, a, b, d);
  } else {
    multiply_format<MmaFormat::bf16>(spec, scale_d, a, b, d);
  }
}

}  // namespace megamoe::emu::tensor_core
