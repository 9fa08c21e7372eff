#include "number_mix.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"

namespace megamoe::record {

namespace {

using ptx::MmaFormat;

struct FormatBits {
  uint32_t fraction_bits;
  int32_t max_exponent;  // the largest field that holds finite numbers
  int32_t bias;
};

FormatBits bits_of(MmaFormat format) {
  return format == MmaFormat::e4m3 ? FormatBits{3, 15, 7} : FormatBits{7, 254, 127};
}

uint32_t draw_fraction(uint32_t num_bits, bool is_sparse, Draw& draw) {
  const uint32_t all_ones = (1U << num_bits) - 1U;
  if (!is_sparse) return static_cast<uint32_t>(draw.bits()) & all_ones;
  const std::array<uint32_t, 4> choices = {0U, all_ones, 1U, 1U << (num_bits - 1U)};
  return choices[draw.below(4)];
}

/// Zeros, infinities, NaNs of several payloads, and both ends of the normal and subnormal ranges; without the sign.
uint32_t draw_special(MmaFormat format, Draw& draw) {
  constexpr std::array<uint32_t, 8> kE4m3 = {0x00, 0x01, 0x07, 0x08, 0x7E, 0x7F, 0x7F, 0x38};
  constexpr std::array<uint32_t, 12> kBf16 = {0x0000, 0x0001, 0x007F, 0x0080, 0x7F7F, 0x7F80,
                                              0x7F80, 0x7F81, 0x7FC0, 0x7FFF, 0x3F80, 0x0040};
  return format == MmaFormat::e4m3 ? kE4m3[draw.below(kE4m3.size())] : kBf16[draw.below(kBf16.size())];
}

uint32_t sign_bit_of(MmaFormat format) { return format == MmaFormat::e4m3 ? 0x80U : 0x8000U; }

uint32_t draw_code(MmaFormat format, int32_t exponent, int32_t width, const NumberMix& mix, Draw& draw) {
  const FormatBits bits = bits_of(format);
  const uint32_t sign = draw.below(2) * sign_bit_of(format);
  if (mix.uniform_codes) return static_cast<uint32_t>(draw.bits()) & (format == MmaFormat::e4m3 ? 0xFFU : 0xFFFFU);
  if (draw.chance(mix.special_in_256)) return sign | draw_special(format, draw);
  const int32_t field = std::clamp(exponent + draw.between(-width, width), 0, bits.max_exponent);
  const uint32_t magnitude = static_cast<uint32_t>(field) << bits.fraction_bits |
                             draw_fraction(bits.fraction_bits, mix.sparse_fractions, draw);
  return sign | (format == MmaFormat::e4m3 ? std::min(magnitude, 0x7EU) : magnitude);
}

uint32_t draw_accumulator(const NumberMix& mix, Draw& draw) {
  constexpr std::array<uint32_t, 12> kSpecial = {0x00000000, 0x00000001, 0x007FFFFF, 0x00800000,
                                                 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000,
                                                 0x7FFFFFFF, 0x7FA12345, 0x00400000, 0x3F800000};
  const uint32_t sign = draw.below(2) << 31U;
  if (mix.uniform_codes) return static_cast<uint32_t>(draw.bits());
  if (draw.chance(mix.special_in_256)) return sign | kSpecial[draw.below(kSpecial.size())];
  const int32_t field = std::clamp(mix.c_exponent + draw.between(-mix.c_width, mix.c_width), 0, 254);
  uint32_t fraction = draw_fraction(23, mix.sparse_fractions, draw);
  if (field == 0) fraction >>= draw.below(24);
  return sign | static_cast<uint32_t>(field) << 23U | fraction;
}

double value_of(MmaFormat format, uint32_t code) {
  return format == MmaFormat::e4m3 ? e4m3_to_float(static_cast<uint8_t>(code))
                                   : bf16_to_float(static_cast<uint16_t>(code));
}

void store(MmaFormat format, uint8_t* row, uint32_t k, uint32_t code) {
  std::memcpy(row + std::size_t{k} * ptx::element_bytes(format), &code, ptx::element_bytes(format));
}

uint32_t load(MmaFormat format, const uint8_t* row, uint32_t k) {
  uint32_t code = 0;
  std::memcpy(&code, row + std::size_t{k} * ptx::element_bytes(format), ptx::element_bytes(format));
  return code;
}

enum class SignOfPair { same, opposite };

/// Every odd element repeats its neighbour, now and then one unit away, so that products cancel but for a remainder.
void pair_up(MmaFormat format, uint8_t* row, SignOfPair sign, Draw& draw) {
  const uint32_t sign_bit = sign_bit_of(format);
  for (uint32_t k = 0; k < ptx::wgmma_k(format); k += 2) {
    const uint32_t twin = load(format, row, k) ^ (sign == SignOfPair::opposite ? sign_bit : 0U);
    store(format, row, k + 1, twin ^ (draw.chance(64) ? 1U : 0U));
  }
}

}  // namespace

NumberMix draw_mix(MmaFormat format, uint32_t case_idx, Draw& draw) {
  constexpr std::array<uint32_t, 5> kZeroChance = {0, 0, 128, 224, 248};
  constexpr std::array<int32_t, 6> kWidth = {0, 1, 3, 8, 20, 40};
  const FormatBits bits = bits_of(format);
  const bool is_bf16 = format == MmaFormat::bf16;
  // Products meet near 2^target; for e4m3 only the accumulator can leave their narrow range.
  int32_t target = is_bf16 ? draw.between(-10, 10) : draw.between(-16, 16);
  int32_t c_distance = draw.between(-30, 30);
  NumberMix mix{};
  mix.zero_in_256 = kZeroChance[draw.below(kZeroChance.size())];
  mix.sparse_fractions = draw.chance(64);
  mix.one_sign = draw.chance(32);
  switch (case_idx % 8U) {
    case 0: mix.uniform_codes = true; break;
    case 1: break;
    case 2:
      if (is_bf16) target = draw.between(-252, 254);
      if (!is_bf16) c_distance = draw.between(-160, 140);
      break;
    case 3:
      if (is_bf16 && draw.chance(128)) target = draw.between(-252, 254);
      mix.cancels = draw.chance(192);
      mix.c_cancels = !mix.cancels || draw.chance(128);
      break;
    case 4: mix.special_in_256 = 1U << draw.below(8); break;
    case 5:
      mix.zero_in_256 = 252 + draw.below(5);
      c_distance = draw.between(-180, -100) - target;
      break;
    case 6:
      if (is_bf16) target = draw.between(-175, -115);
      if (!is_bf16) target = draw.between(-20, -8);
      break;
    default:
      if (is_bf16) target = draw.between(118, 132);
      if (!is_bf16) c_distance = draw.between(8, 16);
      break;
  }
  const int32_t sum = target + 2 * bits.bias;
  const int32_t lowest = std::max(0, sum - bits.max_exponent);
  const int32_t highest = std::min(bits.max_exponent, sum);
  mix.a_exponent = draw.chance(64) ? lowest : draw.between(std::min(lowest, highest), std::max(lowest, highest));
  mix.b_exponent = sum - mix.a_exponent;
  mix.c_exponent = target + c_distance + 127;
  const uint32_t num_widths = is_bf16 ? 6 : 4;
  mix.a_width = kWidth[draw.below(num_widths)];
  mix.b_width = kWidth[draw.below(num_widths)];
  mix.c_width = kWidth[draw.below(4)];
  return mix;
}

void fill_numbers(const NumberMix& mix, const ptx::WgmmaSpec& spec, Draw& draw, uint8_t* a, uint8_t* b, uint32_t* c) {
  const MmaFormat format = spec.format;
  const uint32_t num_k = ptx::wgmma_k(format);
  const uint32_t sign_bit = sign_bit_of(format);
  for (uint32_t row = 0; row < ptx::kWgmmaRows; ++row) {
    uint8_t* codes = a + std::size_t{row} * ptx::kWgmmaOperandBytes;
    for (uint32_t k = 0; k < num_k; ++k) {
      uint32_t code = draw_code(format, mix.a_exponent, mix.a_width, mix, draw);
      if (draw.chance(mix.zero_in_256)) code &= sign_bit;
      store(format, codes, k, mix.one_sign ? code | sign_bit : code);
    }
    if (mix.cancels) pair_up(format, codes, SignOfPair::opposite, draw);
  }
  for (uint32_t column = 0; column < spec.n; ++column) {
    uint8_t* codes = b + std::size_t{column} * ptx::kWgmmaOperandBytes;
    for (uint32_t k = 0; k < num_k; ++k) {
      const uint32_t code = draw_code(format, mix.b_exponent, mix.b_width, mix, draw);
      store(format, codes, k, mix.one_sign ? code & ~sign_bit : code);
    }
    if (mix.cancels) pair_up(format, codes, SignOfPair::same, draw);
  }
  for (uint32_t row = 0; row < ptx::kWgmmaRows; ++row) {
    for (uint32_t column = 0; column < spec.n; ++column) {
      uint32_t& bits = c[row * spec.n + column];
      bits = draw_accumulator(mix, draw);
      if (mix.one_sign) bits |= 0x80000000U;
      if (!mix.c_cancels) continue;
      const double product = value_of(format, load(format, a + std::size_t{row} * ptx::kWgmmaOperandBytes, 0)) *
                             value_of(format, load(format, b + std::size_t{column} * ptx::kWgmmaOperandBytes, 0));
      bits = float_bits(static_cast<float>(-product)) + (draw.chance(96) ? draw.below(4) : 0U);
    }
  }
}

}  // namespace megamoe::record
