// Which kernels run: the automatic choice, forced ones, and the refusal of what the CPU lacks.

#include <algorithm>
#include <cmath>

#include "kernels_testing.hpp"

namespace megamoe::cpu {
namespace {

constexpr Isa kWidestFirst[] = {Isa::amx_bf16, Isa::avx512_bf16, Isa::avx512, Isa::avx2, Isa::scalar};

TEST(IsaTest, AvailableOnesAreWidestFirstAndEndWithScalar) {
  const std::span<const Isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), Isa::scalar);
  EXPECT_TRUE(std::is_sorted(isas.rbegin(), isas.rend()));
}

TEST(IsaTest, AutomaticIsTheWidest) {
  const Result<const Kernels*> found = find_kernels(Isa::automatic);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->isa, available_isas().front());
}

TEST(IsaTest, AForcedOneIsTheOneThatRuns) {
  for (const Isa isa : available_isas()) {
    const Result<const Kernels*> found = find_kernels(isa);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)->isa, isa);
  }
}

TEST(IsaTest, AMissingOneIsRefusedByName) {
  for (const Isa isa : kWidestFirst) {
    if (std::count(available_isas().begin(), available_isas().end(), isa) > 0) continue;
    const Result<const Kernels*> found = find_kernels(isa);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), StatusCode::unsupported);
    EXPECT_NE(found.status().message().find(std::string(to_string(isa))), std::string::npos);
    EXPECT_NE(found.status().message().find("choose isa auto"), std::string::npos);
  }
}

TEST_P(KernelsTest, StepsOfTheCeilingStayFinite) {
  EXPECT_TRUE(std::isfinite(kernels_.run_ceiling_steps(64)));
  EXPECT_EQ(kernels_.run_ceiling_steps(64), kernels_.run_ceiling_steps(640));
  EXPECT_GE(kernels_.flops_per_ceiling_step, 24U);
}

TEST_P(KernelsTest, NarrowerOnesTakeWhatTheseRefuse) {
  PackedMatrix matrix{{WeightFormat::fp8_block, PackedScale::panel_f32, 1, 128, 1}};
  EXPECT_EQ(kernels_.for_matrix(matrix).step_k, 1U);  // a scale for every column of K: one column at a time
  matrix.layout.segment_k = 128;
  EXPECT_EQ(&kernels_.for_matrix(matrix), &kernels_);
  EXPECT_EQ(kernels_.takes == nullptr, kernels_.narrower == nullptr);
}

MM_FOR_EVERY_ISA(KernelsTest);

}  // namespace
}  // namespace megamoe::cpu
