// The kernels' dispatch and combine against the CPU backend's, over ranks, routings, formats and calls of different
// size on one workspace, many interleavings each.

#include "emulated_flow.hpp"

namespace megamoe::stages {
namespace {

class Flow : public ::testing::TestWithParam<StageCase> {};

TEST_P(Flow, GivesTheCpuBackendsBits) {
  for (const uint64_t seed : emu::testing::seeds()) {
    EmulatedFlow kernels(GetParam(), sync::testing::options_of(seed));
    const Status status = run_case(GetParam(), seed, kernels);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Flow, ::testing::ValuesIn(stage_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace megamoe::stages
