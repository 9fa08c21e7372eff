// The kernels' dispatch and combine against the CPU backend's, over ranks, routings, formats and calls of different
// size on one workspace, many interleavings each.

#include "emulated_flow.hpp"

namespace megamoe::stages {
namespace {

/// Interleavings of every case in continuous integration; `./dev emu-soak` tries many more.
constexpr uint64_t kNumSeeds = 20;

class Flow : public ::testing::TestWithParam<StageCase> {};

TEST_P(Flow, GivesTheCpuBackendsBits) {
  const uint64_t num_seeds = sync::testing::num_seeds(kNumSeeds);
  for (uint64_t seed = 1; seed <= num_seeds && !HasFailure(); ++seed) {
    EmulatedFlow kernels(GetParam(), sync::testing::options_of(seed));
    const Status status = run_case(GetParam(), seed, kernels);
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Flow, ::testing::ValuesIn(stage_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace megamoe::stages
