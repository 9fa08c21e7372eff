#pragma once

// What one wgmma.mma_async computes: formats, shape, which way its operands lie, their signs.

#include <cstdint>

#include "formats/platform.hpp"

namespace megamoe::ptx {

/// Format of both operands; the accumulator is always FP32.
enum class MmaFormat : uint8_t { e4m3, bf16 };

/// The dimension along which an operand is contiguous in shared memory; FP8 has `k` only.
enum class Major : uint8_t { k, mn };

/// `minus` multiplies every element of the operand by -1.
enum class Sign : uint8_t { plus, minus };

/// Whether the accumulator's old value takes part in the sum.
enum class ScaleD : uint32_t { overwrite = 0, accumulate = 1 };

/// One instruction: D[64, n] = A[64, k] * B[k, n] (+ D).
struct WgmmaSpec {
  MmaFormat format;
  uint32_t n;  // 8 to 256, a multiple of 8
  Major a_major = Major::k;
  Major b_major = Major::k;
  Sign a_sign = Sign::plus;
  Sign b_sign = Sign::plus;

  friend bool operator==(const WgmmaSpec&, const WgmmaSpec&) = default;
};

inline constexpr uint32_t kWgmmaRows = 64;          // of A and D
inline constexpr uint32_t kWgmmaOperandBytes = 32;  // of one row of A or one column of B: k elements
inline constexpr uint32_t kMaxWgmmaColumns = 256;
inline constexpr uint32_t kWarpgroupLanes = 128;

MM_HOST_DEVICE constexpr uint32_t element_bytes(MmaFormat format) { return format == MmaFormat::e4m3 ? 1U : 2U; }

/// Products per result of one instruction: 32 for e4m3, 16 for bf16.
MM_HOST_DEVICE constexpr uint32_t wgmma_k(MmaFormat format) { return kWgmmaOperandBytes / element_bytes(format); }

MM_HOST_DEVICE constexpr bool is_valid(const WgmmaSpec& spec) {
  const bool shape_is_valid = spec.n >= 8U && spec.n <= kMaxWgmmaColumns && spec.n % 8U == 0U;
  const bool is_k_major = spec.a_major == Major::k && spec.b_major == Major::k;
  return shape_is_valid && (is_k_major || spec.format == MmaFormat::bf16);
}

}  // namespace megamoe::ptx
