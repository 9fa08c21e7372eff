// The kernels' dispatch and combine against the CPU backend's, over ranks, routings, formats and calls of different
// size on one workspace, many interleavings each.

#include "flow_compare.hpp"

namespace megamoe::sm90::testing {
namespace {

using flow::Field;

/// Stands in for gemm1 and gemm2: partials come home, masks and the tile counter are used up. Partials of masked
/// choices stay unwritten: combine must not look at them.
void write_partials(const FlowCase& layer, EmulatedFlow& kernels, const CpuFlow& cpu, const std::vector<RankData>& data,
                    uint32_t rank) {
  const flow::Dims& dims = layer.dims;
  const size_t row_bytes = dims.hidden * sizeof(uint16_t);
  for (uint32_t t = 0; t < data[rank].num_tokens; ++t) {
    flow::for_each_choice(&data[rank].ids[size_t{t} * dims.top_k], dims, [&](flow::Choice choice, flow::Expert) {
      const size_t first = (size_t{num(choice)} * dims.max_tokens + t) * dims.hidden;
      kernels.machine().write(kernels.workspace(rank).get<Field::partial>() + first, &data[rank].partial[first],
                              row_bytes);
      std::memcpy(cpu.workspace(rank).get<Field::partial>() + first, &data[rank].partial[first], row_bytes);
    });
  }
  kernels.machine().fill(kernels.workspace(rank).get<Field::done_mask>(), 0xFF,
                         dims.num_pool_blocks() * sizeof(uint64_t));
  kernels.machine().fill(kernels.workspace(rank).get<Field::next_tile>(), 0x11, sizeof(uint32_t));
}

void expect_same_output(const EmulatedFlow& kernels, const CpuFlow& cpu, uint32_t rank) {
  const std::vector<uint16_t>& y = cpu.y(rank);
  EXPECT_EQ(std::vector<uint16_t>(kernels.arguments(rank).y, kernels.arguments(rank).y + y.size()), y);
  const std::vector<uint32_t>& rows = cpu.local_expert_rows(rank);
  const uint32_t* got = kernels.arguments(rank).local_expert_rows;
  EXPECT_EQ(std::vector<uint32_t>(got, got + rows.size()), rows);
}

/// All calls of one case under one seed.
void run_calls(const FlowCase& layer, uint64_t seed) {
  EmulatedFlow kernels(layer, sync::testing::options_of(seed));
  CpuFlow cpu(layer);
  const uint32_t num_ranks = layer.dims.num_ranks;
  for (size_t call = 0; call < layer.num_tokens.size(); ++call) {
    std::vector<RankData> data;
    for (uint32_t r = 0; r < num_ranks; ++r) {
      data.push_back(make_rank_data(layer, layer.num_tokens[call][r], seed * 1000 + call * 100 + r));
    }
    kernels.begin_call(data);
    cpu.dispatch(data);
    const emu::Report dispatched = kernels.run(layer.num_blocks, dispatch_kernel);
    ASSERT_TRUE(dispatched.clean()) << dispatched.to_string();
    for (uint32_t r = 0; r < num_ranks; ++r) {
      expect_same_lists(layer, kernels, cpu, data, r);
      expect_same_pool(layer, kernels, cpu, r);
      write_partials(layer, kernels, cpu, data, r);
    }
    cpu.combine();
    const emu::Report combined = kernels.run(layer.num_blocks + 1, combine_kernel);
    ASSERT_TRUE(combined.clean()) << combined.to_string();
    for (uint32_t r = 0; r < num_ranks; ++r) {
      expect_same_output(kernels, cpu, r);
      expect_reset(layer, kernels, r);
      EXPECT_EQ(kernels.workspace(r).get<Field::fault>()->is_set, 0U);
    }
    if (::testing::Test::HasFailure()) FAIL() << layer.name << ", seed " << seed << ", call " << call;
  }
}

class Flow : public ::testing::TestWithParam<FlowCase> {};

TEST_P(Flow, GivesTheCpuBackendsBits) {
  const uint64_t num_seeds = sync::testing::num_seeds(GetParam().num_seeds);
  for (uint64_t seed = 1; seed <= num_seeds && !HasFailure(); ++seed) run_calls(GetParam(), seed);
}

INSTANTIATE_TEST_SUITE_P(Cases, Flow, ::testing::ValuesIn(flow_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace megamoe::sm90::testing
