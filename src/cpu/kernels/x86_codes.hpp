#pragma once

// Codes on x86. Activations by way of half floats: every e4m3 value is one up to a power of two, and the CPU turns 16
// of those into floats at a time. Weights by moving bits. Internal linkage, for the reason given in generic.hpp.

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/kernels.hpp"

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

/// e4m3's sign, exponent and fraction where FP32 keeps them.
constexpr uint32_t kE4m3Bits = 0x87F00000U;
/// What a NaN code's magnitude becomes there.
constexpr uint32_t kE4m3NanBits = 0x07F00000U;

/// e2m1's sign, exponent and fraction where FP32 keeps them; 0.5 becomes a subnormal float.
constexpr uint32_t kE2m1Bits = 0x81C00000U;
constexpr Factors kMovedE2m1{0x1p126F, 0x1p118F};
/// By way of the e4m3 codes of four times the values.
constexpr Factors kShuffledE2m1{0x1p118F, 0x1p118F};

/// How a CPU likes subnormal floats. AMD's multiply-adds take them at full speed; Intel's take a detour of some 150
/// cycles through microcode, which made FP8 layers 20 times slower (docs/perf/0002).
enum class Subnormals { fast, slow };

/// FP32's exponent for e4m3's zero exponent, where the bits of a code are moved to; what a code of zero exponent then
/// is too large by, less its doubling; a NaN code's value.
constexpr uint32_t kE4m3ExponentShift = 120U << 23;
constexpr uint32_t kE4m3SmallestNormal = 0x3C800000U;  // 2^-6
constexpr uint32_t kE4m3NanValue = 0x43F00000U;        // 480

/// e4m3 codes of four times the 16 e2m1 values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, for a byte shuffle.
inline __m128i e4m3_of_e2m1() {
  return _mm_setr_epi8(0x00, 0x40, 0x48, 0x4C, 0x50, 0x54, 0x58, 0x5C, static_cast<char>(0x80), static_cast<char>(0xC0),
                       static_cast<char>(0xC8), static_cast<char>(0xCC), static_cast<char>(0xD0),
                       static_cast<char>(0xD4), static_cast<char>(0xD8), static_cast<char>(0xDC));
}

}  // namespace
}  // namespace megamoe::cpu
