// Kernels for AVX2 with FMA and F16C: 8 lanes, 16 registers.

#include "cpu/kernels/generic.hpp"
#include "cpu/kernels/x86_codes.hpp"

namespace megamoe::cpu {
namespace {

struct Vec8 {
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kMaxRows = 6;  // 12 sums, 2 weights, 1 activation
  __m256 value;

  static Vec8 broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static Vec8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, value); }

  static void expand_half(__m256i half, __m256 scale, float* w) {
    _mm256_storeu_ps(w, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), scale));
    _mm256_storeu_ps(w + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), scale));
  }
  static void expand_half(__m256i half, float* w) {
    _mm256_storeu_ps(w, _mm256_cvtph_ps(_mm256_castsi256_si128(half)));
    _mm256_storeu_ps(w + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)));
  }
  static void expand_e4m3(const uint8_t* codes, float* w) {
    expand_half(half_from_e4m3(codes), _mm256_set1_ps(kE4m3HalfScale), w);
  }
  static void expand_e2m1(const uint8_t* codes, float* w) {
    const HalfPair half = half_from_e2m1_pairs(codes);
    expand_half(half.even, w);
    expand_half(half.odd, w + kPanelCols);
  }
  static void expand_bf16(const uint8_t* codes, float* w) {
    for (uint32_t i = 0; i < kPanelCols; i += kLanes) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + 2 * i));
      _mm256_storeu_ps(w + i, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
    }
  }
};

inline Vec8 mul(Vec8 a, Vec8 b) { return {_mm256_mul_ps(a.value, b.value)}; }
inline Vec8 fma(Vec8 a, Vec8 b, Vec8 c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }

}  // namespace

constexpr Kernels kAvx2Kernels = make_kernels<Vec8>(Isa::avx2);

}  // namespace megamoe::cpu
