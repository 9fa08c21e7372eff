// The same layer from C99 and from C++ gives the same bits, in every format and layout that the ABI can express.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "c_layer.h"
#include "host/c_convert.hpp"
#include "small_layer.hpp"

namespace megamoe::c_api_test {
namespace {

/// y bits of all ranks and the rows each local expert received.
struct Output {
  std::vector<std::vector<uint16_t>> y;
  std::vector<std::vector<uint32_t>> rows;
};

/// The uneven split of 5 experts over 2 ranks, as the layer itself tells it.
std::vector<uint32_t> local_expert_counts(const Layer& layer) {
  std::vector<uint32_t> counts;
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) counts.push_back(layer.num_local_experts(rank));
  return counts;
}

Output blank_output(const std::vector<uint32_t>& counts) {
  Output output;
  for (const uint32_t count : counts) {
    output.y.emplace_back(size_t{kNumTokens} * kHidden, uint16_t{0xFFFF});
    output.rows.emplace_back(count, ~0U);
  }
  return output;
}

void run_cpp(const SmallLayer& layer, Output& output) {
  Result<Group> group = Group::threads(kNumRanks);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  Result<Layer> made = Layer::create(layer.config, ArrayWeights(layer.routed, layer.shared), *group);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  output = blank_output(local_expert_counts(*made));
  std::vector<RankOutput> outputs;
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
    outputs.push_back({{reinterpret_cast<Bf16*>(output.y[rank].data()), output.y[rank].size()}, output.rows[rank]});
  }
  const Status status = made->run(layer.inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.to_string();
}

void run_c(const SmallLayer& layer, c_weight_source source, Output& output) {
  std::vector<mm_rank_output> outputs;
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
    outputs.push_back({sizeof(mm_rank_output), output.y[rank].data(), output.rows[rank].data()});
  }
  c_layer_case c{};
  c.config = &layer.c_config;
  c.num_ranks = kNumRanks;
  c.routed = layer.c_routed.data();
  c.shared = layer.c_shared.data();
  c.inputs = layer.c_inputs.data();
  c.outputs = outputs.data();
  c.source = source;
  const mm_status status = c_run_layer(&c);
  ASSERT_EQ(status, MM_OK) << mm_status_name(status) << ": " << mm_last_error();
}

struct NamedVariant {
  const char* name;
  Variant variant;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const NamedVariant& one, std::ostream* out) { *out << one.name; }

class CApi : public testing::TestWithParam<NamedVariant> {};

TEST_P(CApi, GivesTheBitsOfTheCppApi) {
  const SmallLayer layer(GetParam().variant);
  Output expected;
  run_cpp(layer, expected);
  if (HasFatalFailure()) return;
  // A run that wrote nothing, or zeros only, would compare equal for the wrong reason.
  const auto is_value = [](uint16_t bits) { return (bits & 0x7FFFU) != 0 && bits != 0xFFFFU; };
  ASSERT_GT(std::count_if(expected.y[0].begin(), expected.y[0].end(), is_value), kHidden);

  for (const c_weight_source source : {C_WEIGHTS_ARRAY, C_WEIGHTS_CALLBACK}) {
    Output actual = blank_output({static_cast<uint32_t>(expected.rows[0].size()),  //
                                  static_cast<uint32_t>(expected.rows[1].size())});
    run_c(layer, source, actual);
    EXPECT_EQ(actual.y, expected.y);
    EXPECT_EQ(actual.rows, expected.rows);
  }
}

constexpr NamedVariant kVariants[] = {
    {"bf16", {}},
    {"bf16_i64_ids", {.id_type = MM_ID_I64}},
    {"bf16_separate_biases", {.layout = GateUpLayout::separate, .has_biases = true}},
    {"bf16_interleaved_biases_shared",
     {.layout = GateUpLayout::interleaved, .num_shared_experts = 1, .has_biases = true}},
    {"fp8", {.format = WeightFormat::fp8_block}},
    {"fp8_e8m0_scales", {.format = WeightFormat::fp8_block, .scale_format = MM_SCALE_E8M0}},
    {"fp8_x_fp8_f32", {.format = WeightFormat::fp8_block, .x_format = MM_X_FP8_F32}},
    {"mxfp4_x_fp8_e8m0", {.format = WeightFormat::mxfp4, .x_format = MM_X_FP8_E8M0}},
    {"mxfp4_separate_shared",
     {.format = WeightFormat::mxfp4, .layout = GateUpLayout::separate, .num_shared_experts = 2}},
};

INSTANTIATE_TEST_SUITE_P(Variants, CApi, testing::ValuesIn(kVariants),
                         [](const testing::TestParamInfo<NamedVariant>& named) { return named.param.name; });

TEST(CApiConfig, StartTimeoutIsTheDefaultWhenLeftZero) {
  mm_layer_config config = SmallLayer(Variant{}).c_config;
  EXPECT_EQ(internal::to_config(config)->start_timeout, LayerConfig{}.start_timeout);
  config.start_timeout_ms = 1234;
  EXPECT_EQ(internal::to_config(config)->start_timeout, std::chrono::milliseconds(1234));
}

TEST(CApiStatus, NamesAndVersionAreThoseOfTheCppApi) {
  EXPECT_EQ(mm_version(), std::string(version()));
  for (int32_t code = MM_OK; code <= MM_INTERNAL; ++code) {
    EXPECT_EQ(mm_status_name(code), std::string(to_string(static_cast<StatusCode>(code))));
  }
  EXPECT_STREQ(mm_status_name(MM_INTERNAL + 1), "unknown");
  EXPECT_STREQ(mm_status_name(-1), "unknown");
}

TEST(CApiStatus, LastErrorBelongsToItsThreadAndEndsWithASuccess) {
  mm_group* group = nullptr;
  ASSERT_EQ(mm_group_create_threads(0, &group), MM_INVALID_ARGUMENT);
  EXPECT_STRNE(mm_last_error(), "");
  std::string seen_by_other = "unread";
  std::thread([&] { seen_by_other = mm_last_error(); }).join();
  EXPECT_EQ(seen_by_other, "");
  ASSERT_EQ(mm_group_create_threads(2, &group), MM_OK);
  EXPECT_STREQ(mm_last_error(), "");
  mm_group_destroy(group);
}

TEST(CApiGroup, TellsItsRanks) {
  mm_group* group = nullptr;
  ASSERT_EQ(mm_group_create_threads(3, &group), MM_OK);
  EXPECT_EQ(mm_group_num_ranks(group), 3U);
  EXPECT_EQ(mm_group_num_local_ranks(group), 3U);
  EXPECT_EQ(mm_group_first_local_rank(group), 0U);
  mm_group_destroy(group);
  EXPECT_EQ(mm_group_num_ranks(nullptr), 0U);
  EXPECT_EQ(mm_group_num_local_ranks(nullptr), 0U);
  EXPECT_EQ(mm_group_first_local_rank(nullptr), 0U);
}

}  // namespace
}  // namespace megamoe::c_api_test
