// Kernels for AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers.

#include "cpu/kernels/generic.hpp"
#include "cpu/kernels/x86_codes.hpp"

namespace megamoe::cpu {
namespace {

struct Vec16 {
  static constexpr uint32_t kLanes = 16;
  static constexpr uint32_t kMaxRows = 12;  // 12 sums hide the latency of a multiply-add at two a cycle
  __m512 value;

  static Vec16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, value); }

  static void expand_e4m3(const uint8_t* codes, float* w) {
    _mm512_storeu_ps(w, _mm512_mul_ps(_mm512_cvtph_ps(half_from_e4m3(codes)), _mm512_set1_ps(kE4m3HalfScale)));
  }
  static void expand_e2m1(const uint8_t* codes, float* w) {
    const HalfPair half = half_from_e2m1_pairs(codes);
    _mm512_storeu_ps(w, _mm512_cvtph_ps(half.even));
    _mm512_storeu_ps(w + kPanelCols, _mm512_cvtph_ps(half.odd));
  }
  static void expand_bf16(const uint8_t* codes, float* w) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    _mm512_storeu_ps(w, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)));
  }
};

inline Vec16 mul(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.value, b.value)}; }
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }

}  // namespace

constexpr Kernels kAvx512Kernels = make_kernels<Vec16>(Isa::avx512);

}  // namespace megamoe::cpu
