#pragma once

// Weight codes to half floats on x86: every e4m3 and e2m1 value is a half float up to a power of two, and the CPU turns
// 16 of those into floats at a time. Internal linkage, for the reason given in generic.hpp.

#include <immintrin.h>

#include <cstdint>

namespace megamoe::cpu {
namespace {

/// What half_from_e4m3 leaves to be multiplied in: e4m3's exponent bias is 7, a half float's is 15.
constexpr float kE4m3HalfScale = 256.0F;

/// 16 e4m3 codes as half floats divided by kE4m3HalfScale; NaN codes become the quiet NaN.
inline __m256i half_from_e4m3(const uint8_t* codes) {
  const __m256i magnitude_bits = _mm256_set1_epi16(0x3F80);
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  // Sign extension leaves copies of the sign in bits 14 and 15; bit 14 is the half float's top exponent bit.
  const __m256i shifted = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<int16_t>(0xBF80)));
  const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(shifted, magnitude_bits), magnitude_bits);
  return _mm256_xor_si256(shifted, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x3F80 ^ 0x7E00)));
}

/// 16 e2m1 codes, one per byte (below 16), as half floats.
inline __m256i half_from_e2m1(__m128i codes) {
  // Upper bytes of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; the lower bytes are all zero.
  const __m128i upper_bytes =
      _mm_setr_epi8(0x00, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, static_cast<char>(0x80), static_cast<char>(0xB8),
                    static_cast<char>(0xBC), static_cast<char>(0xBE), static_cast<char>(0xC0), static_cast<char>(0xC2),
                    static_cast<char>(0xC4), static_cast<char>(0xC6));
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_shuffle_epi8(upper_bytes, codes)), 8);
}

/// 16 packed bytes: the low nibbles' values (even columns of K), then the high nibbles' (odd ones).
struct HalfPair {
  __m256i even;
  __m256i odd;
};

inline HalfPair half_from_e2m1_pairs(const uint8_t* codes) {
  const __m128i nibble = _mm_set1_epi8(15);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return {half_from_e2m1(_mm_and_si128(bytes, nibble)),
          half_from_e2m1(_mm_and_si128(_mm_srli_epi16(bytes, 4), nibble))};
}

}  // namespace
}  // namespace megamoe::cpu
