// Which kernels run: the automatic choice, forced ones, and the refusal of what the CPU lacks.

#include <algorithm>

#include "kernels_testing.hpp"

namespace megamoe::cpu {
namespace {

constexpr Isa kWidestFirst[] = {Isa::avx512, Isa::avx2, Isa::scalar};

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

TEST_P(KernelsTest, StepsOfTheCeilingConverge) {
  EXPECT_NEAR(kernels_.run_fma_steps(64), 24.0F, 1e-4F);  // 12 sums, each of which goes to 2
  EXPECT_GE(kernels_.flops_per_fma_step, 24U);
}

MM_FOR_EVERY_ISA(KernelsTest);

}  // namespace
}  // namespace megamoe::cpu
