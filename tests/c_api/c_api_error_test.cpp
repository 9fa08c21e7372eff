// What the C ABI refuses: each message names the rule, the value and the remedy.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "small_layer.hpp"

namespace megamoe::c_api_test {
namespace {

/// Asserts an invalid argument whose message holds all of `parts`.
void expect_refused(mm_status status, const std::vector<std::string>& parts) {
  EXPECT_EQ(status, MM_INVALID_ARGUMENT);
  const std::string message = mm_last_error();
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

class CApiErrors : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(mm_group_create_threads(kNumRanks, &group_), MM_OK) << mm_last_error(); }
  void TearDown() override {
    mm_layer_destroy(layer_);
    mm_group_destroy(group_);
  }

  mm_status create() {
    return mm_layer_create(&small_.c_config, group_, small_.c_routed.data(),
                           static_cast<uint32_t>(small_.c_routed.size()), nullptr, 0, &layer_);
  }

  mm_status run() {
    std::vector<mm_rank_output> outputs;
    for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
      outputs.push_back({output_bytes_, y_[rank].data(), nullptr});
    }
    return mm_layer_run(layer_, small_.c_inputs.data(), outputs.data(), kNumRanks);
  }

  SmallLayer small_{Variant{}};
  mm_group* group_ = nullptr;
  mm_layer* layer_ = nullptr;
  size_t output_bytes_ = sizeof(mm_rank_output);
  std::vector<std::vector<uint16_t>> y_ =
      std::vector<std::vector<uint16_t>>(kNumRanks, std::vector<uint16_t>(size_t{kNumTokens} * kHidden, 0xABCD));
};

TEST_F(CApiErrors, NullHandlesAndOutputs) {
  expect_refused(mm_group_create_threads(2, nullptr), {"group must not be NULL", "got NULL", "pass"});
  expect_refused(mm_layer_create(nullptr, group_, small_.c_routed.data(), kNumExperts, nullptr, 0, &layer_),
                 {"config must not be NULL", "got NULL"});
  expect_refused(mm_layer_create(&small_.c_config, nullptr, small_.c_routed.data(), kNumExperts, nullptr, 0, &layer_),
                 {"group must not be NULL"});
  expect_refused(mm_layer_create(&small_.c_config, group_, nullptr, kNumExperts, nullptr, 0, &layer_),
                 {"routed must not be NULL"});
  expect_refused(mm_layer_create(&small_.c_config, group_, small_.c_routed.data(), kNumExperts, nullptr, 1, &layer_),
                 {"shared must not be NULL"});
  expect_refused(mm_layer_create(&small_.c_config, group_, small_.c_routed.data(), kNumExperts, nullptr, 0, nullptr),
                 {"layer must not be NULL"});
  expect_refused(mm_layer_create_with(&small_.c_config, group_, nullptr, nullptr, &layer_),
                 {"weights must not be NULL"});
  expect_refused(mm_plan(&small_.c_config, kNumRanks, nullptr), {"info must not be NULL"});
  expect_refused(mm_layer_run(nullptr, nullptr, nullptr, 0), {"layer must not be NULL"});
  expect_refused(mm_layer_plan(nullptr, nullptr), {"layer must not be NULL"});
  mm_layer_destroy(nullptr);
  mm_group_destroy(nullptr);
}

TEST_F(CApiErrors, StructBytesOfAnotherHeader) {
  small_.c_config.struct_bytes = 0;
  expect_refused(create(), {"config.struct_bytes must be sizeof(mm_layer_config)", "got 0", "_INIT"});
  small_.c_config.struct_bytes = sizeof(mm_layer_config) + 8;
  expect_refused(create(), {"config.struct_bytes", std::to_string(sizeof(mm_layer_config) + 8)});
  small_.c_config.struct_bytes = sizeof(mm_layer_config);
  small_.c_routed[1].struct_bytes = 12;
  expect_refused(create(), {"routed[1].struct_bytes must be sizeof(mm_expert_weights)", "got 12", "_INIT"});
  mm_plan_info info{};
  expect_refused(mm_plan(&small_.c_config, kNumRanks, &info), {"info.struct_bytes", "got 0"});
}

TEST_F(CApiErrors, EnumerationsOutsideTheirValues) {
  mm_layer_config& config = small_.c_config;
  const auto expect_config_refused = [&](int32_t& field, const char* name, const char* choice) {
    const int32_t good = field;
    field = 99;
    expect_refused(create(), {name, choice, "got 99", "use one of these"});
    field = good;
  };
  expect_config_refused(config.backend, "config.backend", "MM_BACKEND_CPU = 1");
  expect_config_refused(config.isa, "config.isa", "MM_ISA_AVX2 = 2");
  expect_config_refused(config.pin, "config.pin", "MM_PIN_NODE = 2");
  expect_config_refused(config.strategy, "config.strategy", "MM_STRATEGY_PINGPONG = 2");
  expect_config_refused(config.router_weight, "config.router_weight", "MM_ROUTER_WEIGHT_AT_COMBINE = 1");
  expect_config_refused(config.activation_scale, "config.activation_scale", "MM_ACTIVATION_SCALE_FP32 = 0");
  expect_config_refused(small_.c_routed[0].layout, "routed[0].layout", "MM_GATE_UP_SEPARATE = 0");
  expect_config_refused(small_.c_routed[0].down.format, "routed[0].down.format", "MM_WEIGHT_MXFP4 = 1");
}

TEST_F(CApiErrors, TimeOutsThatAreNone) {
  mm_layer_config& config = small_.c_config;
  const uint64_t good = config.timeout_ms;
  config.timeout_ms = ~uint64_t{0};
  expect_refused(create(), {"config.timeout_ms", "18446744073709551615", "milliseconds"});
  config.timeout_ms = 0;
  expect_refused(create(), {"timeout must be positive", "got 0 ms", "60000"});
  config.timeout_ms = good;
  config.start_timeout_ms = ~uint64_t{0};
  expect_refused(create(), {"config.start_timeout_ms", "18446744073709551615", "milliseconds"});
}

TEST_F(CApiErrors, RulesOfTheCppApiComeThrough) {
  small_.c_config.hidden = 250;
  expect_refused(create(), {"hidden", "250"});
  EXPECT_EQ(layer_, nullptr);
  mm_plan_info info{};
  info.struct_bytes = sizeof(info);
  expect_refused(mm_plan(&small_.c_config, kNumRanks, &info), {"hidden", "250"});
  small_.c_config.hidden = kHidden;
  expect_refused(mm_plan(&small_.c_config, 65, &info), {"65"});
}

TEST_F(CApiErrors, ExpertsThatAreMissingOrFail) {
  expect_refused(mm_layer_create(&small_.c_config, group_, small_.c_routed.data(), 3, nullptr, 0, &layer_),
                 {"routed must have an entry for expert", "got 3"});
  const mm_weights_fn not_found = [](void*, mm_expert_kind, uint32_t, mm_expert_weights*) -> mm_status {
    return MM_NOT_FOUND;
  };
  EXPECT_EQ(mm_layer_create_with(&small_.c_config, group_, not_found, nullptr, &layer_), MM_NOT_FOUND);
  EXPECT_NE(std::string(mm_last_error()).find("routed expert"), std::string::npos) << mm_last_error();
  const mm_weights_fn no_status = [](void*, mm_expert_kind, uint32_t, mm_expert_weights*) -> mm_status { return -7; };
  expect_refused(mm_layer_create_with(&small_.c_config, group_, no_status, nullptr, &layer_),
                 {"must return an mm_status", "got -7"});
}

TEST_F(CApiErrors, InputsOfACall) {
  ASSERT_EQ(create(), MM_OK) << mm_last_error();
  std::vector<mm_rank_input>& inputs = small_.c_inputs;
  const mm_rank_input good = inputs[1];

  expect_refused(mm_layer_run(layer_, inputs.data(), nullptr, kNumRanks), {"outputs must not be NULL"});
  expect_refused(mm_layer_run(layer_, inputs.data(), nullptr, kNumRanks + 1), {"num_local_ranks", "got 3"});
  inputs[1].struct_bytes = 1;
  expect_refused(run(), {"inputs[1].struct_bytes must be sizeof(mm_rank_input)", "got 1"});
  inputs[1] = good;
  inputs[1].x_format = 7;
  expect_refused(run(), {"inputs[1].x_format", "MM_X_BF16 = 0", "got 7"});
  inputs[1] = good;
  inputs[1].id_type = -1;
  expect_refused(run(), {"inputs[1].id_type", "MM_ID_I64 = 1", "got -1"});
  inputs[1] = good;
  inputs[1].topk_ids = nullptr;
  expect_refused(run(), {"topk_ids"});
  inputs[1] = good;
  inputs[1].num_tokens = kNumTokens + 1;
  expect_refused(run(), {"num_tokens", "6"});
  inputs[1] = good;
  output_bytes_ = 8;
  expect_refused(run(), {"outputs[0].struct_bytes", "got 8"});
  output_bytes_ = sizeof(mm_rank_output);
  EXPECT_EQ(y_[0], std::vector<uint16_t>(size_t{kNumTokens} * kHidden, 0xABCD)) << "a refused call wrote y";

  EXPECT_EQ(run(), MM_OK) << mm_last_error();
  EXPECT_NE(y_[0], std::vector<uint16_t>(size_t{kNumTokens} * kHidden, 0xABCD));
}

TEST_F(CApiErrors, QueriesOfALayer) {
  ASSERT_EQ(create(), MM_OK) << mm_last_error();
  mm_plan_buffer buffer{};
  expect_refused(mm_layer_plan_buffer(layer_, 0, &buffer), {"buffer.struct_bytes", "got 0"});
  buffer.struct_bytes = sizeof(buffer);
  expect_refused(mm_layer_plan_buffer(layer_, 10'000, &buffer), {"buffer_idx must be below", "got 10000"});
  EXPECT_EQ(mm_layer_first_expert(layer_, 0), 0U);
  EXPECT_EQ(mm_layer_num_local_experts(layer_, 0) + mm_layer_num_local_experts(layer_, 1), kNumExperts);
  EXPECT_EQ(mm_layer_first_expert(layer_, 1), mm_layer_num_local_experts(layer_, 0));
  EXPECT_EQ(mm_layer_num_local_experts(layer_, kNumRanks), 0U);
  EXPECT_EQ(mm_layer_first_expert(nullptr, 0), 0U);
}

}  // namespace
}  // namespace megamoe::c_api_test
