// What bench prints of measurements on GPUs, from made-up ones: no GPU is asked.

#include "bench_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace megamoe::cli {
namespace {

BenchRequest request() {
  BenchRequest request;
  request.one_rank_of = 8;
  return request;
}

/// A row of an H200 with everything as wide as it gets.
BenchResult wide_result() {
  BenchResult result;
  result.name = "v4-pro";
  result.shape = {.hidden = 7168, .intermediate = 3072, .num_experts = 48, .top_k = 6};
  result.format = WeightFormat::mxfp4;
  result.plan.backend = Backend::sm90;
  result.plan.num_ranks = 1;
  result.plan.threads_per_rank = 132;
  result.strategy = Strategy::small_batch;
  result.tokens_per_rank = 8192;
  result.num_rows = 49152;
  result.num_active_experts = 48;
  result.weight_bytes = 3'170'893'824;
  result.num_gpus = 2;
  result.traffic = {.row_bytes = 1'068'000'000, .link_bytes = 500'000'000};
  result.call_seconds = {5.8e-3, 10e-3, 12.5e-3};
  result.stage_seconds[static_cast<size_t>(Stage::gemm1)] = 6e-3;
  result.overlap = 1.25;
  result.sm_mhz = 1980;
  result.ceilings = {.gflops = 1'425'000.0,
                     .arithmetic = "FP8 products by cuBLASLt 13.1.0, promoted to FP32",
                     .no_gflops = {},
                     .read_gbytes_per_s = 4615.5};
  return result;
}

TEST(BenchReport, GpuTableFitsAScreen) {
  BenchResult narrow = wide_result();
  narrow.tokens_per_rank = 1;
  narrow.num_rows = 6;
  narrow.weight_bytes = 396'361'728;
  narrow.traffic = {.row_bytes = 130'000, .link_bytes = 65'000};
  narrow.call_seconds = {100.4e-6, 123.4e-6, 250.1e-6};
  std::istringstream lines(results_text(request(), {narrow, wide_result()}));
  std::string line;
  uint32_t num_lines = 0;
  for (; std::getline(lines, line); ++num_lines) EXPECT_LE(line.size(), 110U) << line;
  EXPECT_EQ(num_lines, 5U);
}

TEST(BenchReport, GpuTableHasBothCeilingsAndFractionsOfBoth) {
  const std::string text = results_text(request(), {wide_result()});
  // 6 * 49152 * 7168 * 3072 operations and 3.17 GB in 10 ms, on two GPUs.
  for (const char* word :
       {"one rank of 8", "1425.0 TFLOP/s (FP8 products by cuBLASLt 13.1.0, promoted to FP32), 4615.5 GB/s read",
        "649.4", "22.8 %", "317", "3.4 %", "50.0", "1.25", "4.24 GB", "67.0 %", "small_batch"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in\n" << text;
  }
}

TEST(BenchReport, WithoutCublasLtItSaysWhyAndStillHasTheRest) {
  BenchResult result = wide_result();
  result.ceilings.gflops.reset();
  result.ceilings.no_gflops = "cuBLASLt must be there for the loader (got x); y";
  result.num_gpus = 1;
  result.overlap = 0;
  const std::string text = results_text(request(), {result});
  EXPECT_NE(text.find("4615.5 GB/s read; no cuBLASLt ceiling: cuBLASLt must be there"), std::string::npos) << text;
  EXPECT_NE(text.find("6.9 %"), std::string::npos) << text;
  const Json row = results_json(request(), {result})[0];
  EXPECT_TRUE(row["ceiling_gflops"].is_null());
  EXPECT_TRUE(row["fraction_of_compute"].is_null());
  EXPECT_TRUE(row["link_bytes"].is_null());
  EXPECT_TRUE(row["overlap"].is_null());
  EXPECT_EQ(row["ceiling_gflops_missing"], result.ceilings.no_gflops);
}

TEST(BenchReport, JsonHasWhatTheTableRounds) {
  const Json row = results_json(request(), {wide_result()})[0];
  EXPECT_NEAR(row["fraction_of_compute"].get<double>(), row["gflops"].get<double>() / 2 / 1'425'000.0, 1e-12);
  EXPECT_NEAR(row["fraction_of_read"].get<double>(), row["gbytes_per_s"].get<double>() / 2 / 4615.5, 1e-12);
  EXPECT_NEAR(row["link_gbytes_per_s"].get<double>(), 50.0, 1e-9);
  EXPECT_EQ(row["moved_bytes"], 3'170'893'824 + 1'068'000'000);
  EXPECT_EQ(row["stage_us"].size(), 1U);
  EXPECT_NEAR(row["stage_us"]["gemm1"].get<double>(), 6000, 1e-9);
  EXPECT_EQ(row["sm_clock_mhz"], 1980);
  EXPECT_EQ(row["one_rank_of"], 8);
}

// ---------------------------------------------------------------- traffic

/// Two ranks with two of four experts and one token each; home 0 chooses experts 0 and 2, home 1 chooses 2 and none.
TEST(BenchTraffic, OnlyRowsBetweenGpusCrossLinks) {
  SyntheticInputSpec spec;
  spec.shape = {.hidden = 256, .intermediate = 128, .num_experts = 4, .top_k = 2};
  spec.routing.ids = {0, 2, 2, -1};
  const SyntheticBatch tokens(spec, 2);
  SyntheticWeightSpec weight_spec;
  weight_spec.shape = spec.shape;
  const SyntheticWeights weights(weight_spec);
  LayerConfig config;
  config.shape = spec.shape;
  config.max_tokens_per_rank = 1;
  config.tuning.threads_per_rank = 1;
  const Result<Group> group = Group::threads(2);
  ASSERT_TRUE(group.ok());
  const Result<Layer> layer = Layer::create(config, weights, *group);
  ASSERT_TRUE(layer.ok()) << layer.status().message();
  constexpr uint64_t kThere = 256 + 2 * 4 + 4;
  constexpr uint64_t kBack = 512;
  const Traffic on_one = count_traffic(tokens, *layer, 1, 1);
  EXPECT_EQ(on_one.row_bytes, 3 * (kThere + kBack));
  EXPECT_EQ(on_one.link_bytes, 0U);
  const Traffic on_two = count_traffic(tokens, *layer, 1, 2);
  EXPECT_EQ(on_two.row_bytes, on_one.row_bytes);
  // Into GPU 1 comes the row of expert 2, into GPU 0 that expert's result.
  EXPECT_EQ(on_two.link_bytes, kBack);
}

}  // namespace
}  // namespace megamoe::cli
