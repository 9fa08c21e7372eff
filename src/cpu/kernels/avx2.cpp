// Kernels for AVX2 with FMA and F16C: 8 lanes, 16 registers.

#include "cpu/kernels/generic.hpp"
#include "cpu/kernels/x86_codes.hpp"

namespace megamoe::cpu {
namespace {

template <Subnormals kSubnormals>
struct Vec8 {
  using Words = __m256i;
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kMaxRows = 6;  // 12 sums, 2 weights, 1 activation
  static constexpr uint32_t kMultipliedPanels = 1;
  /// 4 sums, 4 words, and what they expand to.
  static constexpr uint32_t streamed_panels(uint32_t num_rows) { return num_rows == 1 ? 2 : 1; }
  static constexpr Factors kFp8 = kSubnormals == Subnormals::fast ? kMovedE4m3 : Factors{};
  static constexpr Factors kMxfp4 = kSubnormals == Subnormals::fast ? kMovedE2m1 : kShuffledE2m1;
  __m256 value;

  static Vec8 broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static Vec8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, value); }

  static Words load_words(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  template <int j>
  static Vec8 e4m3_moved(Words words) {
    // To the top of the word, then down to FP32's exponent: the arithmetic shift takes the sign along.
    const __m256i top = j == 3 ? words : _mm256_slli_epi32(words, 24 - 8 * j);
    const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(kE4m3Bits));
    return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(top, 4), mask))};
  }
  template <int j>
  static Vec8 e4m3_value(Words words) {
    const Vec8 moved = e4m3_moved<j>(words);
    if constexpr (kSubnormals == Subnormals::fast) return moved;
    // With the right exponent a code of zero exponent has a leading 1 too many: 2 |x| - 2^-6 takes it off, and is the
    // smaller of the two for these codes alone.
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(moved.value), _mm256_set1_epi32(kE4m3ExponentShift));
    const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int32_t>(0x80000000U)));
    const __m256 signs = _mm256_and_ps(moved.value, sign);
    const __m256 normal = _mm256_andnot_ps(sign, _mm256_castsi256_ps(bits));
    const __m256 smallest = _mm256_castsi256_ps(_mm256_set1_epi32(kE4m3SmallestNormal));
    const __m256 subnormal = _mm256_fmsub_ps(normal, _mm256_set1_ps(2.0F), smallest);
    return {_mm256_or_ps(_mm256_min_ps(normal, subnormal), signs)};
  }
  static Vec8 with_nan(Vec8 x) {
    const __m256i nan_bits = _mm256_set1_epi32(kSubnormals == Subnormals::fast ? kE4m3NanBits : kE4m3NanValue);
    const __m256i bits = _mm256_castps_si256(x.value);
    const __m256i is_nan = _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)), nan_bits);
    return {_mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_and_si256(is_nan, _mm256_set1_epi32(0x7FC00000))))};
  }
  /// Where subnormal floats cost nothing, nibbles as they stand; elsewhere e4m3 codes of four times their value, none
  /// of which is subnormal, in the bytes.
  template <Part kPart>
  static Words e2m1_part(Words words) {
    if constexpr (kSubnormals == Subnormals::fast) {
      return kPart == Part::low ? _mm256_slli_epi32(words, 4) : words;
    } else {
      const __m256i nibbles = kPart == Part::low ? words : _mm256_srli_epi32(words, 4);
      const __m256i table = _mm256_broadcastsi128_si256(e4m3_of_e2m1());
      return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
    }
  }
  template <int j>
  static Vec8 e2m1_value(Words part) {
    if constexpr (kSubnormals == Subnormals::slow) return e4m3_moved<j>(part);
    const __m256i top = j == 3 ? part : _mm256_slli_epi32(part, 24 - 8 * j);
    const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(kE2m1Bits));
    return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(top, 6), mask))};
  }
  template <int j>
  static Vec8 bf16_half(Words words) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xFFFF0000U));
    return {_mm256_castsi256_ps(j == 0 ? _mm256_slli_epi32(words, 16) : _mm256_and_si256(words, upper))};
  }
  static Vec8 e8m0_scales(const uint8_t* codes) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    const __m256i is_zero = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
    const __m256i is_nan = _mm256_cmpeq_epi32(wide, _mm256_set1_epi32(255));
    const __m256i bits = _mm256_or_si256(_mm256_slli_epi32(wide, 23),
                                         _mm256_or_si256(_mm256_and_si256(is_zero, _mm256_set1_epi32(0x00400000)),
                                                         _mm256_and_si256(is_nan, _mm256_set1_epi32(0x7FC00000))));
    return {_mm256_castsi256_ps(bits)};
  }
  static void decode_e4m3(const uint8_t* codes, float factor, float* x) {
    const __m256 scale = _mm256_set1_ps(kE4m3HalfScale * factor);
    const __m256i half = half_from_e4m3(codes);
    _mm256_storeu_ps(x, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), scale));
    _mm256_storeu_ps(x + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), scale));
  }
};

template <Subnormals kS>
inline Vec8<kS> mul(Vec8<kS> a, Vec8<kS> b) {
  return {_mm256_mul_ps(a.value, b.value)};
}
template <Subnormals kS>
inline Vec8<kS> fma(Vec8<kS> a, Vec8<kS> b, Vec8<kS> c) {
  return {_mm256_fmadd_ps(a.value, b.value, c.value)};
}

}  // namespace

constexpr Kernels kAvx2Kernels = make_kernels<Fp32Steps<Vec8<Subnormals::fast>>>(Isa::avx2, "avx2");
constexpr Kernels kAvx2SlowSubnormalKernels =
    make_kernels<Fp32Steps<Vec8<Subnormals::slow>>>(Isa::avx2, "avx2_slow_subnormals");

}  // namespace megamoe::cpu
