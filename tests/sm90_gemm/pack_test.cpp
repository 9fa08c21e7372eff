// Packed weights, taken apart again: every code times its scale is the value that the reference reads out of the same
// checkpoint layout, padding is zero, and what the kernels cannot multiply is refused.

#include "cuda/sm90/pack.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "check/synthetic.hpp"
#include "formats/e4m3.hpp"
#include "reference/dense_expert.hpp"

namespace megamoe::sm90 {
namespace {

struct PackCase {
  const char* name;
  LayerShape shape;
  GateUpLayout layout;
  ScaleType scale;
  Biases biases;
};

/// One expert packed, in memory of exactly the sizes that the layouts tell.
struct Packed {
  explicit Packed(const LayerShape& shape)
      : gemm1(MatrixLayout::gemm1(shape.hidden, shape.intermediate)),
        gemm2(MatrixLayout::gemm2(shape.hidden, shape.intermediate)),
        gemm1_codes(gemm1.code_bytes(), 0xAA),
        gemm2_codes(gemm2.code_bytes(), 0xAA),
        gemm1_scales(gemm1.num_scales()),
        gemm2_scales(gemm2.num_scales()),
        gemm1_bias(gemm1.num_rows(), -1.0F),
        gemm2_bias(gemm2.num_rows(), -1.0F) {}

  ExpertMemory memory() {
    return {gemm1_codes.data(), gemm1_scales.data(), gemm1_bias.data(),
            gemm2_codes.data(), gemm2_scales.data(), gemm2_bias.data()};
  }

  MatrixLayout gemm1;
  MatrixLayout gemm2;
  std::vector<uint8_t> gemm1_codes;
  std::vector<uint8_t> gemm2_codes;
  std::vector<ScalePair> gemm1_scales;
  std::vector<ScalePair> gemm2_scales;
  std::vector<float> gemm1_bias;
  std::vector<float> gemm2_bias;
};

/// Weight of packed row `row` and column `k`, from the bytes where the tensor core will look for it.
double value_at(const MatrixLayout& layout, const std::vector<uint8_t>& codes, const std::vector<ScalePair>& scales,
                uint32_t row, uint32_t k) {
  const uint32_t row_in_tile = row % 128;
  // Two n tiles stand chunk by chunk side by side; a last one of an odd number stands alone.
  const uint32_t n_tile = row / 128;
  const bool is_alone = n_tile % 2 == 0 && n_tile + 1 == layout.num_n_tiles;
  const uint32_t chunk_in_pair = is_alone ? k / 128 : k / 128 * 2 + n_tile % 2;
  const size_t chunk = size_t{n_tile / 2 * 2} * layout.num_chunks + chunk_in_pair;
  const uint32_t swizzled = (k % 128) ^ (row_in_tile % 8 * 16);
  const uint8_t code = codes[chunk * 128 * 128 + row_in_tile * 128 + swizzled];
  const ScalePair pair = scales[chunk];
  return static_cast<double>(e4m3_to_float(code)) * static_cast<double>(row / 8 % 2 == 0 ? pair.even : pair.odd);
}

class Pack : public ::testing::TestWithParam<PackCase> {};

TEST_P(Pack, HoldsTheReferencesValues) {
  const PackCase& row = GetParam();
  SyntheticWeights source(
      {.shape = row.shape, .routed = {.scale = row.scale}, .layout = row.layout, .biases = row.biases, .seed = 5});
  const auto weights = source.routed(1);
  ASSERT_TRUE(weights.ok());
  ASSERT_TRUE(check_packable(*weights, row.shape, "expert 1").ok());
  EXPECT_EQ(has_bias(*weights), row.biases == Biases::all);
  Packed packed(row.shape);
  pack_expert(*weights, row.shape, packed.memory());
  const auto dense = reference::dense_expert(*weights, row.shape, "expert 1");
  ASSERT_TRUE(dense.ok());

  const uint32_t hidden = row.shape.hidden;
  const uint32_t intermediate = row.shape.intermediate;
  for (uint32_t r = 0; r < packed.gemm1.num_rows(); ++r) {
    const uint32_t col = r / 16 * 8 + r % 8;
    const std::vector<double>& half = r / 8 % 2 == 0 ? dense->gate : dense->up;
    const std::vector<double>& bias = r / 8 % 2 == 0 ? dense->gate_bias : dense->up_bias;
    const bool is_real = col < intermediate;
    EXPECT_EQ(packed.gemm1_bias[r], is_real ? bias[col] : 0.0) << r;
    for (uint32_t k = 0; k < packed.gemm1.num_chunks * 128; ++k) {
      const double wanted = is_real && k < hidden ? half[size_t{col} * hidden + k] : 0.0;
      ASSERT_EQ(value_at(packed.gemm1, packed.gemm1_codes, packed.gemm1_scales, r, k), wanted) << r << ", " << k;
    }
  }
  for (uint32_t r = 0; r < packed.gemm2.num_rows(); ++r) {
    const bool is_real = r < hidden;
    EXPECT_EQ(packed.gemm2_bias[r], is_real ? dense->down_bias[r] : 0.0) << r;
    for (uint32_t k = 0; k < packed.gemm2.num_chunks * 128; ++k) {
      const double wanted = is_real && k < intermediate ? dense->down[size_t{r} * intermediate + k] : 0.0;
      ASSERT_EQ(value_at(packed.gemm2, packed.gemm2_codes, packed.gemm2_scales, r, k), wanted) << r << ", " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Pack,
    ::testing::Values(
        PackCase{"separate_odd_sizes", {272, 144, 2, 1, 0}, GateUpLayout::separate, ScaleType::f32, Biases::all},
        PackCase{"concatenated_e8m0", {128, 192, 2, 1, 0}, GateUpLayout::concatenated, ScaleType::e8m0, Biases::none},
        PackCase{"interleaved", {144, 272, 2, 1, 0}, GateUpLayout::interleaved, ScaleType::f32, Biases::all},
        PackCase{"smallest", {16, 16, 2, 1, 0}, GateUpLayout::separate, ScaleType::e8m0, Biases::all}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(PackRefusal, NamesRuleValueAndRemedy) {
  const LayerShape shape{128, 80, 2, 1, 0};
  SyntheticWeights bf16({.shape = shape, .routed = {.format = WeightFormat::bf16}});
  Status status = check_packable(*bf16.routed(0), shape, "expert 0");
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(status.message(),
            "expert 0: gate must be fp8 for backend sm90 (got bf16); convert the weights, or choose backend cpu");

  SyntheticWeights small_blocks({.shape = shape, .routed = {.block_rows = 32, .block_cols = 32}});
  status = check_packable(*small_blocks.routed(0), shape, "expert 0");
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(status.message(),
            "expert 0: gate must have a scale block of 128x128 for backend sm90 (got 32x32); quantise the weights with "
            "that block, or choose backend cpu");

  SyntheticWeights straddling({.shape = shape, .layout = GateUpLayout::concatenated});
  status = check_packable(*straddling.routed(0), shape, "expert 0");
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("multiple of 64 for backend sm90 (got 80); pass gate and up as two matrices"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace megamoe::sm90
