#pragma once

// FP32 vectors of AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers. Internal linkage, for the reason given in
// generic.hpp.

#include "cpu/kernels/generic.hpp"
#include "cpu/kernels/x86_codes.hpp"

namespace megamoe::cpu {
namespace {

/// BF16 values of e4m3 codes in the low byte of each half, anything above; NaN codes may give any finite value.
template <NanCodes kNans>
MM_ALWAYS_INLINE __m512i bf16_of_e4m3(__m512i codes) {
  const __m512i magnitude = _mm512_and_si512(_mm512_slli_epi16(codes, 4), _mm512_set1_epi16(0x07F0));
  __m512i value = _mm512_add_epi16(magnitude, _mm512_set1_epi16(120 << 7));
  // A code of zero exponent must not become a subnormal number, so its value comes from a table: 0 to 7
  // times 2^-9. The permutation looks at 5 bits, of which the exponent's two are zero.
  const __m512i subnormals =
      _mm512_zextsi128_si512(_mm_setr_epi16(0x0000, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60));
  const __mmask32 is_subnormal = _mm512_testn_epi16_mask(magnitude, _mm512_set1_epi16(0x0780));
  value = _mm512_mask_permutexvar_epi16(value, is_subnormal, codes, subnormals);
  if constexpr (kNans == NanCodes::some) {
    const __mmask32 is_nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x07F0));
    value = _mm512_mask_mov_epi16(value, is_nan, _mm512_set1_epi16(0x7FC0));
  }
  constexpr int kValueOrSign = 0xF8;  // value | (codes << 8 & 0x8000)
  return _mm512_ternarylogic_epi32(value, _mm512_slli_epi16(codes, 8), _mm512_set1_epi16(static_cast<int16_t>(0x8000)),
                                   kValueOrSign);
}

template <Subnormals kSubnormals>
struct Vec16 {
  using Words = __m512i;
  static constexpr uint32_t kLanes = 16;
  // 24 sums, 2 weights, 1 activation: 14 loads for 24 multiply-adds, where one panel would take 13 for 12.
  static constexpr uint32_t kMaxRows = 12;
  static constexpr uint32_t kMultipliedPanels = 2;
  /// 4 to 12 sums, the words and what they expand to.
  static constexpr uint32_t streamed_panels(uint32_t num_rows) { return num_rows <= 2 ? 4 : 2; }
  static constexpr Factors kFp8 = kSubnormals == Subnormals::fast ? kMovedE4m3 : Factors{};
  static constexpr Factors kMxfp4{};
  __m512 value;

  static Vec16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, value); }

  static Words load_words(const uint8_t* p) { return _mm512_loadu_si512(p); }
  template <int j>
  static Vec16 e4m3_value(Words words) {
    if constexpr (kSubnormals == Subnormals::fast) {
      // To the top of the word, then down to FP32's exponent: the arithmetic shift takes the sign along.
      const __m512i top = j == 3 ? words : _mm512_slli_epi32(words, 24 - 8 * j);
      const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(kE4m3Bits));
      return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(top, 4), mask))};
    } else {
      // Two columns at a time by way of BF16, which is FP32's upper half.
      return bf16_half<j / 2>(bf16_of_e4m3<NanCodes::none>(j % 2 == 0 ? words : _mm512_srli_epi16(words, 8)));
    }
  }
  static Vec16 with_nan(Vec16 x) {
    const __m512i nan_bits = _mm512_set1_epi32(kSubnormals == Subnormals::fast ? kE4m3NanBits : kE4m3NanValue);
    const __m512i bits = _mm512_castps_si512(x.value);
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)), nan_bits);
    return {_mm512_castsi512_ps(_mm512_mask_or_epi32(bits, is_nan, bits, _mm512_set1_epi32(0x7FC00000)))};
  }
  template <Part kPart>
  static Words e2m1_part(Words words) {
    return kPart == Part::low ? words : _mm512_srli_epi32(words, 4);
  }
  template <int j>
  static Vec16 e2m1_value(Words part) {
    // The permutation looks at 4 bits of each index.
    const __m512 table = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F,
                                        -2.0F, -3.0F, -4.0F, -6.0F);
    return {_mm512_permutexvar_ps(j == 0 ? part : _mm512_srli_epi32(part, 8 * j), table)};
  }
  template <int j>
  static Vec16 bf16_half(Words words) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000U));
    return {_mm512_castsi512_ps(j == 0 ? _mm512_slli_epi32(words, 16) : _mm512_and_si512(words, upper))};
  }
  static Vec16 e8m0_scales(const uint8_t* codes) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const __mmask16 is_zero = _mm512_cmpeq_epi32_mask(wide, _mm512_setzero_si512());
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(wide, _mm512_set1_epi32(255));
    const __m512i bits = _mm512_mask_mov_epi32(_mm512_slli_epi32(wide, 23), is_zero, _mm512_set1_epi32(0x00400000));
    return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, is_nan, _mm512_set1_epi32(0x7FC00000)))};
  }
  static void decode_e4m3(const uint8_t* codes, float factor, float* x) {
    const __m512 scale = _mm512_set1_ps(kE4m3HalfScale * factor);
    _mm512_storeu_ps(x, _mm512_mul_ps(_mm512_cvtph_ps(half_from_e4m3(codes)), scale));
  }
};

template <Subnormals kS>
inline Vec16<kS> mul(Vec16<kS> a, Vec16<kS> b) {
  return {_mm512_mul_ps(a.value, b.value)};
}
template <Subnormals kS>
inline Vec16<kS> fma(Vec16<kS> a, Vec16<kS> b, Vec16<kS> c) {
  return {_mm512_fmadd_ps(a.value, b.value, c.value)};
}

}  // namespace
}  // namespace megamoe::cpu
