#pragma once

// Steps of the gemm loops on pairs of BF16 values: two columns of K at a time, one BF16 dot product per output element.
// Every e4m3 and e2m1 value is a BF16 value, so nothing is lost on the way. Internal linkage, for the reason given in
// generic.hpp.
//
// A pair holds the columns of K that stand in the same place of a word's two halves: of fp8 and mxfp4 words columns 0
// and 2, then 1 and 3 (mxfp4 then 4 and 6, 5 and 7), of bf16 words 0 and 1. Rows of activations are put into the same
// order.

#include "cpu/kernels/vec16.hpp"

namespace megamoe::cpu {
namespace {

struct Bf16Pairs {
  using Vec = Vec16<Subnormals::slow>;
  using Words = __m512i;
  using Operand = __m512i;
  static constexpr uint32_t kStepK = 2;
  static constexpr uint32_t kMaxRows = 16;
  static constexpr uint32_t kMultipliedPanels = 1;
  static constexpr uint32_t streamed_panels(uint32_t num_rows) { return num_rows <= 2 ? 4 : 2; }
  static constexpr Factors kFp8{};
  static constexpr Factors kMxfp4{};
  static constexpr uint32_t kFlops = 4 * Vec::kLanes;

  static Operand broadcast(const uint32_t* a) { return _mm512_set1_epi32(static_cast<int32_t>(*a)); }
  static Operand load(const uint32_t* w) { return _mm512_loadu_si512(w); }
  static void store(Operand pairs, uint32_t* w) { _mm512_storeu_si512(w, pairs); }
  static Vec multiply_add(Operand a, Operand w, Vec sum) {
    return {_mm512_dpbf16_ps(sum.value, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(w))};
  }
  /// Adds 1 * 1 - 1 * 1.
  static Vec ceiling_step(Vec sum) {
    return multiply_add(_mm512_set1_epi32(0x3F803F80), _mm512_set1_epi32(static_cast<int32_t>(0xBF803F80U)), sum);
  }

  template <WeightFormat kFormat, Part kPart>
  static MM_ALWAYS_INLINE Words part_of(Words words) {
    return kPart == Part::low ? words : _mm512_srli_epi16(words, 4);
  }
  /// Pair j of a part.
  template <WeightFormat kFormat, NanCodes kNans, uint32_t j>
  static MM_ALWAYS_INLINE Operand operand_of(Words part) {
    const __m512i codes = j == 0 ? part : _mm512_srli_epi16(part, 8);
    if constexpr (kFormat == WeightFormat::bf16) {
      return part;
    } else if constexpr (kFormat == WeightFormat::mxfp4) {
      return of_e2m1(codes);
    } else {
      return bf16_of_e4m3<kNans>(codes);
    }
  }

  /// e2m1 codes in the low 4 bits of each half, anything above.
  static MM_ALWAYS_INLINE __m512i of_e2m1(__m512i codes) {
    // Twice the 16 values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives: the permutation looks at 5 bits.
    const __m512i table = _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0x0000, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, static_cast<int16_t>(0x8000),
                          static_cast<int16_t>(0xBF00), static_cast<int16_t>(0xBF80), static_cast<int16_t>(0xBFC0),
                          static_cast<int16_t>(0xC000), static_cast<int16_t>(0xC040), static_cast<int16_t>(0xC080),
                          static_cast<int16_t>(0xC0C0)));
    return _mm512_permutexvar_epi16(codes, table);
  }

  /// Whole steps of 32 columns: the last is filled up with zeros.
  static void prepare_row(WeightFormat format, const uint8_t* codes, uint32_t num_cols, uint32_t* a) {
    const __m256i as_bytes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    for (uint32_t i = 0; i < num_cols; i += 32, a += 16) {
      const auto* at = reinterpret_cast<const __m128i*>(codes + i);
      const __m128i high = i + 16 < num_cols ? _mm_loadu_si128(at + 1) : _mm_setzero_si128();
      __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at)), high, 1);
      if (format != WeightFormat::bf16) bytes = _mm256_shuffle_epi8(bytes, as_bytes);
      _mm512_storeu_si512(a, bf16_of_e4m3<NanCodes::some>(_mm512_cvtepu8_epi16(bytes)));
    }
  }
};

}  // namespace
}  // namespace megamoe::cpu
