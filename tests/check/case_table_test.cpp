#include "check/case_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace megamoe {
namespace {

const std::vector<CheckCase>& full() {
  static const std::vector<CheckCase> cases = check_cases(Suite::full);
  return cases;
}

bool any(const std::function<bool(const CheckCase&)>& holds) {
  return std::any_of(full().begin(), full().end(), holds);
}

TEST(CaseTable, HasEnoughCasesWithNamesOfTheirOwn) {
  EXPECT_GE(full().size(), 320U);
  std::set<std::string> names;
  for (const CheckCase& one : full()) EXPECT_TRUE(names.insert(one.name).second) << one.name;
}

TEST(CaseTable, QuickCasesAreFullCasesToo) {
  const std::vector<CheckCase> quick = check_cases(Suite::quick);
  EXPECT_GE(quick.size(), 50U);
  EXPECT_LE(quick.size(), 110U);
  for (const CheckCase& one : quick) {
    EXPECT_TRUE(any([&](const CheckCase& other) {
      return other.name == one.name && other.input.seed == one.input.seed;
    })) << one.name;
  }
}

TEST(CaseTable, CoversEveryFormatWithEveryLayoutAndInput) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    for (const GateUpLayout layout : {GateUpLayout::separate, GateUpLayout::concatenated, GateUpLayout::interleaved}) {
      for (const InputType input : {InputType::bf16, InputType::fp8_f32_scales, InputType::fp8_e8m0_scales}) {
        EXPECT_TRUE(any([&](const CheckCase& one) {
          return one.weights.routed.format == format && one.weights.layout == layout && one.input.type == input;
        }));
      }
    }
  }
}

TEST(CaseTable, CoversRanksAndTheNumberedCases) {
  for (const uint32_t num_ranks : {1U, 2U, 3U, 4U, 8U}) {
    EXPECT_TRUE(any([&](const CheckCase& one) { return one.num_ranks == num_ranks; })) << num_ranks;
  }
  for (const char* number : {"01", "03", "04", "05", "07", "09", "11", "13", "14", "24", "25", "30", "31", "40"}) {
    const std::string prefix = std::string("case") + number + "/";
    EXPECT_TRUE(any([&](const CheckCase& one) { return one.name.rfind(prefix, 0) == 0; })) << prefix;
  }
}

TEST(CaseTable, EveryCaseIsWhole) {
  for (const CheckCase& one : full()) {
    SCOPED_TRACE(one.name);
    ASSERT_FALSE(one.calls.empty());
    EXPECT_EQ(one.weights.shape.hidden, one.config.shape.hidden);
    EXPECT_EQ(one.input.shape.top_k, one.config.shape.top_k);
    for (const CheckCall& call : one.calls) {
      EXPECT_EQ(call.tokens_per_rank.size(), one.num_ranks);
      for (const uint32_t tokens : call.tokens_per_rank) EXPECT_LE(tokens, one.config.max_tokens_per_rank);
    }
  }
}

TEST(CaseTable, EveryStrategyIsForcedOnWhatHopperKernelsTake) {
  const std::vector<CheckCase> all = with_every_strategy(full());
  const auto find = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const CheckCase& one) { return one.name == name; });
  };
  size_t num_forced = 0;
  for (const CheckCase& one : full()) {
    SCOPED_TRACE(one.name);
    auto place = find(one.name);
    ASSERT_NE(place, all.end());
    EXPECT_EQ(place->config.tuning.strategy, Strategy::automatic);
    if (place + 1 == all.end() || (place + 1)->name != one.name + "/cooperative") {
      EXPECT_EQ(find(one.name + "/pingpong"), all.end());
      continue;
    }
    for (const Strategy strategy : {Strategy::cooperative, Strategy::pingpong, Strategy::small_batch}) {
      ++place;
      ++num_forced;
      EXPECT_EQ(place->name, one.name + "/" + std::string(to_string(strategy)));
      EXPECT_EQ(place->config.tuning.strategy, strategy);
      EXPECT_EQ(place->input.seed, one.input.seed);
      EXPECT_EQ(place->weights.seed, one.weights.seed);
      EXPECT_EQ(place->weights.routed.format, WeightFormat::fp8_block);
      EXPECT_EQ(place->tuning_role, TuningRole::incidental);
    }
  }
  EXPECT_EQ(all.size(), full().size() + num_forced);
  EXPECT_GE(num_forced, 300U);
}

TEST(CaseTable, SuiteNames) {
  EXPECT_EQ(*parse_suite("quick"), Suite::quick);
  EXPECT_EQ(*parse_suite("full"), Suite::full);
  EXPECT_EQ(parse_suite("all").status().message(), "suite must be one of quick, full (got all); choose one of these");
}

}  // namespace
}  // namespace megamoe
