// Dot products of whole chains of instructions, K up to 2048, recorded before there was a layer to record with:
// records of int32 {distribution, K, M, N}, codes A [M, K] and B [N, K], FP32 D [M, N], whose accumulators begin at
// zero.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emu/tensor_core/dot.hpp"

namespace megamoe {
namespace {

using ptx::MmaFormat;

struct Chain {
  uint32_t k, m, n;
  const uint8_t* a;  // [m, k] codes
  const uint8_t* b;  // [n, k] codes
  const uint8_t* d;  // [m, n] FP32
};

/// Copies K step `step` of `num_rows` rows, zeros for rows from `num_present` on.
void take_step(const uint8_t* codes, size_t row_bytes, uint32_t step, uint32_t num_present,
               std::vector<uint8_t>& rows) {
  std::fill(rows.begin(), rows.end(), uint8_t{0});
  for (size_t row = 0; row < num_present; ++row) {
    std::memcpy(rows.data() + row * ptx::kWgmmaOperandBytes,
                codes + row * row_bytes + size_t{step} * ptx::kWgmmaOperandBytes, ptx::kWgmmaOperandBytes);
  }
}

/// Results equal in every bit.
size_t count_equal(MmaFormat format, const Chain& chain) {
  const ptx::WgmmaSpec spec{.format = format, .n = 64};
  const size_t row_bytes = size_t{chain.k} * ptx::element_bytes(format);
  size_t num_equal = 0;
  std::vector<uint8_t> a(size_t{64} * ptx::kWgmmaOperandBytes);
  std::vector<uint8_t> b(size_t{64} * ptx::kWgmmaOperandBytes);
  for (uint32_t row = 0; row < chain.m; row += 64) {
    for (uint32_t column = 0; column < chain.n; column += 64) {
      const uint32_t num_rows = std::min(64U, chain.m - row);
      const uint32_t num_columns = std::min(64U, chain.n - column);
      std::vector<uint32_t> d(size_t{64} * 64);
      for (uint32_t step = 0; step < chain.k / ptx::wgmma_k(format); ++step) {
        take_step(chain.a + row * row_bytes, row_bytes, step, num_rows, a);
        take_step(chain.b + column * row_bytes, row_bytes, step, num_columns, b);
        emu::tensor_core::multiply_rows(spec, ptx::ScaleD::accumulate, a.data(), b.data(), d.data());
      }
      for (uint32_t i = 0; i < num_rows; ++i) {
        const uint8_t* recorded = chain.d + (size_t{row + i} * chain.n + column) * sizeof(float);
        for (uint32_t j = 0; j < num_columns; ++j) {
          num_equal += std::memcmp(recorded + j * sizeof(float), &d[i * 64 + j], sizeof(float)) == 0;
        }
      }
    }
  }
  return num_equal;
}

void expect_all_equal(MmaFormat format, const std::string& name) {
  std::ifstream file(MM_SOURCE_DIR "/data/hopper-mma/" + name, std::ios::binary);
  const std::vector<char> chars((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* bytes = reinterpret_cast<const uint8_t*>(chars.data());
  size_t num_results = 0;
  size_t num_equal = 0;
  for (size_t at = 0; at < chars.size();) {
    int32_t header[4];
    ASSERT_LE(at + sizeof(header), chars.size());
    std::memcpy(header, bytes + at, sizeof(header));
    Chain chain{static_cast<uint32_t>(header[1]),
                static_cast<uint32_t>(header[2]),
                static_cast<uint32_t>(header[3]),
                bytes + at + sizeof(header),
                nullptr,
                nullptr};
    chain.b = chain.a + size_t{chain.m} * chain.k * ptx::element_bytes(format);
    chain.d = chain.b + size_t{chain.n} * chain.k * ptx::element_bytes(format);
    at = static_cast<size_t>(chain.d - bytes) + size_t{chain.m} * chain.n * sizeof(float);
    ASSERT_LE(at, chars.size());
    num_results += size_t{chain.m} * chain.n;
    num_equal += count_equal(format, chain);
  }
  EXPECT_EQ(num_results, 65536U);
  EXPECT_EQ(num_equal, num_results);
}

TEST(Chains, E4m3) { expect_all_equal(MmaFormat::e4m3, "e4m3-chains.bin"); }
TEST(Chains, Bf16) { expect_all_equal(MmaFormat::bf16, "bf16-chains.bin"); }

}  // namespace
}  // namespace megamoe
