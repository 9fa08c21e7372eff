#pragma once

// What the kernel tests share: every instruction set of this machine, numbers from a seed, comparison by bits.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernels/kernels.hpp"

namespace megamoe::cpu {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// One test per set of kernels that this machine can run, chosen here or not.
class KernelsTest : public testing::TestWithParam<const Kernels*> {
 protected:
  KernelsTest() : kernels_(*GetParam()) {}
  const Kernels& kernels_;
};

/// GoogleTest would print an address, which differs from run to run.
inline void PrintTo(const Kernels* kernels, std::ostream* out) { *out << kernels->name; }
inline std::string kernels_test_name(const testing::TestParamInfo<const Kernels*>& param_info) {
  return param_info.param->name;
}

#define MM_FOR_EVERY_ISA(Suite)                                                                                 \
  INSTANTIATE_TEST_SUITE_P(Isa, Suite, testing::ValuesIn(runnable_kernels().begin(), runnable_kernels().end()), \
                           kernels_test_name)

/// Equal by bits, except that every NaN equals every other: which operand's NaN an operation returns is the CPU's
/// choice.
inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

/// Bits of a BF16 NaN, of any sign and payload.
inline bool is_bf16_nan(uint16_t bits) { return (bits & 0x7FFFU) > 0x7F80U; }
inline bool same_bf16(uint16_t a, uint16_t b) { return a == b || (is_bf16_nan(a) && is_bf16_nan(b)); }

inline std::vector<float> random_floats(size_t num_values, uint32_t seed, float low = -2.0F, float high = 2.0F) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(num_values);
  for (float& value : values) value = distribution(random);
  return values;
}

}  // namespace megamoe::cpu
