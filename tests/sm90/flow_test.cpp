// The kernels' dispatch and combine against the CPU backend's, over ranks, routings, formats and calls of different
// size on one workspace, many interleavings each.

#include <ostream>

#include "emulated_flow.hpp"

namespace megamoe::stages {

void PrintTo(const StageCase& row, std::ostream* out) { *out << row.name; }

namespace {

class Flow : public ::testing::TestWithParam<StageCase> {
 protected:
  static void run_seeds(Gpus gpus) {
    for (const uint64_t seed : emu::testing::seeds()) {
      EmulatedFlow kernels(GetParam(), sync::testing::options_of(seed), gpus);
      const Status status = run_case(GetParam(), seed, kernels);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
};
/// All ranks in one launch, as one GPU runs them: a grid that holds the blocks of every rank.
class VirtualRanks : public Flow {};

TEST_P(Flow, GivesTheCpuBackendsBits) { run_seeds(Gpus::one_per_rank); }
TEST_P(VirtualRanks, GiveTheCpuBackendsBits) { run_seeds(Gpus::one_for_all); }

std::vector<StageCase> cases_of_several_ranks() {
  std::vector<StageCase> cases = stage_cases();
  std::erase_if(cases, [](const StageCase& row) { return row.dims.num_ranks == 1; });
  return cases;
}

const auto kNameOfCase = [](const auto& row) { return std::string(row.param.name); };
INSTANTIATE_TEST_SUITE_P(Cases, Flow, ::testing::ValuesIn(stage_cases()), kNameOfCase);
INSTANTIATE_TEST_SUITE_P(Cases, VirtualRanks, ::testing::ValuesIn(cases_of_several_ranks()), kNameOfCase);

}  // namespace
}  // namespace megamoe::stages
