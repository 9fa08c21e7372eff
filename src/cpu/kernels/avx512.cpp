// Kernels for AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers.

#include "cpu/kernels/generic.hpp"
#include "cpu/kernels/x86_codes.hpp"

namespace megamoe::cpu {
namespace {

template <Subnormals kSubnormals>
struct Vec16 {
  using Words = __m512i;
  static constexpr uint32_t kLanes = 16;
  static constexpr uint32_t kMaxRows = 12;    // 12 sums hide the latency of a multiply-add at two a cycle
  static constexpr uint32_t kPairedRows = 6;  // 12 sums, words and what they expand to
  static constexpr Factors kFp8 = kSubnormals == Subnormals::fast ? kMovedE4m3 : Factors{};
  __m512 value;

  static Vec16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, value); }

  static Words load_words(const uint8_t* p) { return _mm512_loadu_si512(p); }
  template <int j>
  static Vec16 e4m3_moved(Words words) {
    // To the top of the word, then down to FP32's exponent: the arithmetic shift takes the sign along.
    const __m512i top = j == 3 ? words : _mm512_slli_epi32(words, 24 - 8 * j);
    const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(kE4m3Bits));
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(top, 4), mask))};
  }
  template <int j>
  static Vec16 e4m3_value(Words words) {
    const Vec16 moved = e4m3_moved<j>(words);
    if constexpr (kSubnormals == Subnormals::fast) return moved;
    // With the right exponent a code of zero exponent has a leading 1 too many: 2 |x| - 2^-6 takes it off, and is the
    // smaller of the two for these codes alone.
    const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(moved.value), _mm512_set1_epi32(kE4m3ExponentShift));
    const __m512 sign = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(0x80000000U)));
    const __m512 signs = _mm512_and_ps(moved.value, sign);
    const __m512 normal = _mm512_andnot_ps(sign, _mm512_castsi512_ps(bits));
    const __m512 smallest = _mm512_castsi512_ps(_mm512_set1_epi32(kE4m3SmallestNormal));
    const __m512 subnormal = _mm512_fmsub_ps(normal, _mm512_set1_ps(2.0F), smallest);
    return {_mm512_or_ps(_mm512_min_ps(normal, subnormal), signs)};
  }
  static Vec16 with_nan(Vec16 x) {
    const __m512i nan_bits = _mm512_set1_epi32(kSubnormals == Subnormals::fast ? kE4m3NanBits : kE4m3NanValue);
    const __m512i bits = _mm512_castps_si512(x.value);
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)), nan_bits);
    return {_mm512_castsi512_ps(_mm512_mask_or_epi32(bits, is_nan, bits, _mm512_set1_epi32(0x7FC00000)))};
  }
  static Words e4m3_of_low_nibbles(Words words) {
    const __m512i table = _mm512_broadcast_i32x4(e4m3_of_e2m1());
    return _mm512_shuffle_epi8(table, _mm512_and_si512(words, _mm512_set1_epi8(15)));
  }
  static Words e4m3_of_high_nibbles(Words words) { return e4m3_of_low_nibbles(_mm512_srli_epi32(words, 4)); }
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

constexpr Kernels kAvx512Kernels = make_kernels<Vec16<Subnormals::fast>>(Isa::avx512, "avx512");
constexpr Kernels kAvx512SlowSubnormalKernels =
    make_kernels<Vec16<Subnormals::slow>>(Isa::avx512, "avx512_slow_subnormals");

}  // namespace megamoe::cpu
