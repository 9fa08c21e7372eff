// The layer with the Hopper kernels' gemm1 and gemm2, emulated: row by row against the FP64 reference, and the same
// bits from every strategy, number of ranks and blocks, and size of pool blocks.

#include "emulated_layer.hpp"
#include "reference/judge.hpp"

namespace megamoe::sm90::testing {
namespace {

std::vector<LayerCase> layer_cases() {
  RoutingSpec masked;
  masked.masked_fraction = 0.4;
  RoutingSpec skewed;
  skewed.kind = RoutingKind::zipf;
  skewed.zipf_exponent = 1.5;
  RoutingSpec one_expert;
  one_expert.kind = RoutingKind::one_expert;
  one_expert.expert = 2;
  ActivationOptions clamped{.limit = 2.0F, .alpha = 1.702F, .up_offset = 1.0F};
  ActivationOptions at_combine;
  at_combine.router_weight = RouterWeightPosition::at_combine;
  at_combine.scale = ActivationScale::power_of_two;
  return {
      {.name = "one_rank", .shape = {128, 128, 4, 2, 0}, .num_tokens = {9}},
      {.name = "odd_sizes_biases",
       .shape = {144, 80, 4, 2, 0},
       .num_tokens = {5, 4},
       .activation = clamped,
       .biases = Biases::all},
      {.name = "masked_e8m0_at_combine",
       .shape = {272, 144, 6, 3, 0},
       .num_tokens = {4, 0, 7},
       .activation = at_combine,
       .routing = masked,
       .biases = Biases::all,
       .scale = ScaleType::e8m0,
       .input = InputType::fp8_e8m0_scales},
      {.name = "skewed_shared",
       .shape = {16, 272, 8, 2, 1},
       .num_tokens = {20, 13},
       .routing = skewed,
       .layout = GateUpLayout::interleaved,
       .input = InputType::fp8_f32_scales},
      {.name = "one_expert_takes_all",
       .shape = {384, 16, 3, 2, 0},
       .num_tokens = {35, 34},
       .routing = one_expert,
       .specials = {{3, SpecialValue::nan}, {5, SpecialValue::zero_row}, {36, SpecialValue::inf}}},
  };
}

class Gemm : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Gemm, IsRightRowByRowAndTheSameHoweverItRuns) {
  const LayerCase& layer_case = GetParam();
  const std::vector<Bf16> y = run_layer(layer_case, {.num_tokens = layer_case.num_tokens, .options = {.seed = 1}});
  const Verdict verdict = judge(reference_of(layer_case), y);
  RecordProperty("worst_error", std::to_string(verdict.worst_error));
  EXPECT_TRUE(verdict.ok()) << verdict.num_bad_rows << " of " << verdict.num_rows << " rows, " << verdict.message;

  const std::vector<uint32_t> one_rank{layer_case.num_all_tokens()};
  const std::vector<RunSpec> others = {
      {Strategy::cooperative, one_rank, 128, 3, {.seed = 2, .races = emu::Races::find, .stores = emu::Stores::delayed}},
      {Strategy::small_batch, layer_case.num_tokens, 8, 2, {.seed = 3, .races = emu::Races::find}},
      {Strategy::small_batch, one_rank, 32, 1, {.seed = 4, .stores = emu::Stores::delayed}},
      {Strategy::small_batch, layer_case.num_tokens, 128, 2, {.seed = 5}},
      {Strategy::pingpong, layer_case.num_tokens, 64, 2, {.seed = 8, .races = emu::Races::find}, Kernels::gemms},
      {Strategy::cooperative, one_rank, 128, 2, {.seed = 9, .stores = emu::Stores::delayed}, Kernels::gemms},
      {Strategy::cooperative, layer_case.num_tokens, 32, 2, {.seed = 6, .races = emu::Races::find}, Kernels::fused},
      {Strategy::small_batch, one_rank, 16, 3, {.seed = 7, .stores = emu::Stores::delayed}, Kernels::fused},
  };
  for (const RunSpec& spec : others) {
    EXPECT_TRUE(run_layer(layer_case, spec) == y) << "block_m " << spec.block_m << ", seed " << spec.options.seed;
  }
}

/// Weights are under way when the wait for rows runs out: producer and math groups end, no copy outlives its block.
TEST(GemmTimeOut, EndsAllRolesAndSaysWhatItWaitedFor) {
  const LayerCase layer_case = layer_cases()[0];
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const RunSpec spec{.num_tokens = layer_case.num_tokens,
                       .options = {.seed = seed, .races = emu::Races::find, .stall = emu::Stall::advances_clock}};
    const flow::FaultRecord fault = run_without_gemm1(layer_case, spec);
    EXPECT_EQ(fault.is_set, sync::kFaultIsSet) << seed;
    EXPECT_EQ(fault.stage, static_cast<uint32_t>(Stage::gemm2)) << seed;
    EXPECT_EQ(fault.field, static_cast<uint32_t>(flow::Field::done_mask)) << seed;
    EXPECT_EQ(fault.seen, 0U) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Gemm, ::testing::ValuesIn(layer_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace megamoe::sm90::testing
