// bench on shapes that take no time: the promised keys, and numbers that agree with each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cli_process.hpp"

namespace megamoe {
namespace {

using nlohmann::json;
using testing::call_cli;
using testing::TemporaryFolder;

constexpr const char* kQuick = " --repeat 2 --warmup 1 --min-time 0 --threads 1 --json";

json bench(const std::string& arguments) {
  const auto outcome = call_cli("bench " + arguments + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  json list = json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(list.is_array()) << outcome.out;
  return list;
}

TEST(Bench, ListHasEveryPromisedKey) {
  const json list = bench("--shape 256,128,8,2 --tokens 1,16 --ranks 2 --format fp8,mxfp4,bf16");
  ASSERT_EQ(list.size(), 6U);
  for (const json& entry : list) {
    for (const char* key : {"backend", "strategy", "shape", "format", "tokens", "ranks", "threads", "median_us",
                            "min_us", "max_us", "flops", "weight_bytes", "gflops", "gbytes_per_s", "ceiling_gflops",
                            "ceiling_read_gbytes_per_s", "fraction_of_compute", "fraction_of_read"}) {
      EXPECT_TRUE(entry.contains(key)) << key;
    }
    EXPECT_EQ(entry["shape"], "256,128,8,2");
    EXPECT_EQ(entry["threads"], 2);
    EXPECT_LE(entry["min_us"].get<double>(), entry["median_us"].get<double>());
    EXPECT_LE(entry["median_us"].get<double>(), entry["max_us"].get<double>());
    EXPECT_GT(entry["ceiling_gflops"].get<double>(), 0);
    EXPECT_GT(entry["fraction_of_read"].get<double>(), 0);
    const double rows = entry["tokens"].get<double>() * 2 * 2;
    EXPECT_EQ(entry["flops"].get<double>(), 2 * rows * 3 * 256 * 128);
    EXPECT_NEAR(entry["gflops"].get<double>(), entry["flops"].get<double>() / entry["median_us"].get<double>() * 1e-3,
                1e-6 * entry["gflops"].get<double>());
  }
}

TEST(Bench, OnlyExpertsWithRowsCountAsWeightBytes) {
  const json list = bench("--shape 256,128,8,1 --tokens 1 --format bf16");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["active_experts"], 1);
  EXPECT_EQ(list[0]["weight_bytes"], 3 * 256 * 128 * 2);
}

TEST(Bench, OneRankOfHoldsItsShareOfTheExperts) {
  const json list = bench("--shape 256,128,16,2 --tokens 32 --one-rank-of 4");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["ranks"], 1);
  EXPECT_EQ(list[0]["one_rank_of"], 4);
  EXPECT_EQ(list[0]["plan"]["shape"]["num_experts"], 4);
  EXPECT_EQ(list[0]["rows"], 64);
}

TEST(Bench, RoutingFileDecidesTheExperts) {
  const TemporaryFolder folder;
  testing::write_file(folder.file("ids.json"), R"({"topk_idx": [[3, 7], [3, -1]]})");
  const json list = bench("--shape 256,128,8,2 --tokens 2 --routing file:" + folder.file("ids.json"));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["rows"], 3);
  EXPECT_EQ(list[0]["active_experts"], 2);
}

TEST(Bench, RoutingFileMustFitTheShape) {
  const TemporaryFolder folder;
  testing::write_file(folder.file("ids.json"), R"({"topk_idx": [[3, 7, 1]]})");
  const auto outcome = call_cli("bench --shape 256,128,8,2 --routing file:" + folder.file("ids.json"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("the routing file must have the shape's 2 ids per token (got 3)"), std::string::npos)
      << outcome.err;
}

TEST(Bench, TextHasOneLineForEachNumberOfTokens) {
  const auto outcome = call_cli("bench --shape 256,128,8,2 --tokens 1,4 --repeat 1 --min-time 0 --threads 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("of compute"), std::string::npos);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5);
}

}  // namespace
}  // namespace megamoe
