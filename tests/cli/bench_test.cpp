// bench on shapes that take no time: the promised keys, and numbers that agree with each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

TEST(Bench, SeveralShapesGiveATableEach) {
  const auto outcome =
      call_cli("bench --shape 256,128,8,2,128,128,4,1 --tokens 1,4 --repeat 1 --warmup 0 --min-time 0 --threads 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const size_t first = outcome.out.find("256,128,8,2: backend cpu");
  const size_t second = outcome.out.find("\n128,128,4,1: backend cpu");
  EXPECT_EQ(first, 0U) << outcome.out;
  ASSERT_NE(second, std::string::npos) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5 + 1 + 5);
}

TEST(Bench, RowsCrossBetweenRanksButNoLinks) {
  const json list = bench("--shape 256,128,8,2 --tokens 4 --ranks 2");
  ASSERT_EQ(list.size(), 1U);
  // FP8 values, two scales and the router weight there, BF16 back.
  EXPECT_EQ(list[0]["row_bytes"], 16 * (256 + 2 * 4 + 4 + 512));
  EXPECT_EQ(list[0]["moved_bytes"], list[0]["weight_bytes"].get<uint64_t>() + list[0]["row_bytes"].get<uint64_t>());
  EXPECT_TRUE(list[0]["link_bytes"].is_null());
  EXPECT_GT(list[0]["overlap"].get<double>(), 0);
  EXPECT_LE(list[0]["overlap"].get<double>(), 1.01);
  double sum = 0;
  for (const json& us : list[0]["stage_us"]) sum += us.get<double>();
  EXPECT_GT(list[0]["stage_us"]["gemm1"].get<double>(), 0);
  EXPECT_LE(sum, 1.5 * list[0]["max_us"].get<double>());
}

TEST(Bench, RecordHasDateCommandMachineAndTheRowsThatWerePrinted) {
  const TemporaryFolder folder;
  const std::string path = folder.file("record.json");
  const json list = bench("--shape 256,128,8,2,128,128,4,1 --tokens 2 --out " + path);
  ASSERT_EQ(list.size(), 2U);
  const json record = json::parse(testing::read_file(path), nullptr, false);
  ASSERT_TRUE(record.is_object());
  EXPECT_EQ(record["kind"], "megamoe bench");
  EXPECT_EQ(record["rows"], list);
  EXPECT_EQ(record["date"].get<std::string>().size(), std::string("2026-11-30T01:30:00Z").size());
  const auto command = record["command"].get<std::vector<std::string>>();
  EXPECT_EQ(command.at(1), "bench");
  EXPECT_EQ(command.back(), "--json");
  EXPECT_EQ(record["ceilings"]["gflops"], list[0]["ceiling_gflops"]);
  EXPECT_GT(record["machine"]["hardware_threads"].get<int>(), 0);
  EXPECT_TRUE(record["machine"]["gpu"].contains("driver") || record["machine"]["gpu"].contains("unknown"));
  const auto is_left_over = [&](const auto& entry) { return entry.path() != path; };
  EXPECT_EQ(std::count_if(std::filesystem::directory_iterator(folder.path()), {}, is_left_over), 0);
}

}  // namespace
}  // namespace megamoe
