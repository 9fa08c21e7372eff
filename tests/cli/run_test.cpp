// run and demo on the tiny trained model.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "cli_process.hpp"
#include "formats/safetensors.hpp"

namespace megamoe {
namespace {

using nlohmann::json;
using testing::call_cli;
using testing::read_file;
using testing::TemporaryFolder;
using testing::tiny_model_file;
using testing::tiny_run;

json parse(const testing::CliOutcome& outcome) {
  json value = json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << outcome.out << outcome.err;
  return value;
}

class TinyModel : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyModel, SameBitsOnEveryNumberOfRanks) {
  const TemporaryFolder folder;
  std::string first;
  for (const uint32_t num_ranks : {1U, 2U, 3U, 4U, 8U}) {
    const std::string out = folder.file("y.safetensors");
    const auto outcome = call_cli(tiny_run(GetParam()) + " --check --json --repeat 1 --ranks " +
                                  std::to_string(num_ranks) + " --out " + out);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    const json report = parse(outcome);
    EXPECT_TRUE(report["reference"]["ok"]);
    EXPECT_EQ(report["reference"]["num_rows"], 512);
    EXPECT_TRUE(report["stored"]["ok"]);
    EXPECT_EQ(report["stored"]["tensor"], "layers.1.y_" + GetParam());
    EXPECT_EQ(report["tokens_per_rank"].size(), num_ranks);
    const auto rows = report["rows_per_rank"].get<std::vector<uint32_t>>();
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0U), 512U * 4U);
    const std::string written = read_file(out);
    if (first.empty()) first = written;
    EXPECT_EQ(written, first) << num_ranks << " ranks";
  }
}

TEST_P(TinyModel, SameBitsForUnevenSplitsThreadsAndTiles) {
  const TemporaryFolder folder;
  const std::string plain = folder.file("plain.safetensors");
  const std::string other = folder.file("other.safetensors");
  ASSERT_EQ(call_cli(tiny_run(GetParam()) + " --out " + plain).exit_code, 0);
  for (const std::string options :
       {"--ranks 3 --split 500,0,12", "--threads 3", "--block-m 16", "--gemm2-block-n 16 --experts-per-wave 3",
        "--isa scalar", "--ranks 2 --pin core"}) {
    const auto outcome = call_cli(tiny_run(GetParam()) + " --repeat 1 " + options + " --out " + other);
    ASSERT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.err;
    EXPECT_EQ(read_file(other), read_file(plain)) << options;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TinyModel, ::testing::Values("fp8", "mxfp4"),
                         [](const auto& test) { return test.param; });

/// The x of one layer in a file of its own, under its short name.
void write_x_only(const std::string& path) {
  const auto probe = SafeTensors::open(tiny_model_file("probe.safetensors"));
  ASSERT_TRUE(probe.ok()) << probe.status().message();
  TensorView x = *probe->find("layers.1.x");
  x.name = "x";
  ASSERT_TRUE(write_safetensors(path, std::span(&x, 1)).ok());
}

TEST(Run, RoutesWhereTheTokensHaveNoIds) {
  const TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(write_x_only(folder.file("x.safetensors")));
  const std::string command = "run --model " + tiny_model_file("fp8.safetensors") + " --layer 1 --tokens " +
                              folder.file("x.safetensors") + " --ranks 2 --check --json --repeat 1";
  const auto outcome = call_cli(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = parse(outcome);
  EXPECT_EQ(report["routing"], "the layer's router");
  EXPECT_TRUE(report["reference"]["ok"]);
  EXPECT_TRUE(report["stored"].is_null());
  // The stored choices were made by the same router in FP32; a tie may fall otherwise, the loads stay close.
  const json given = parse(call_cli(tiny_run("fp8") + " --json --repeat 1"));
  uint32_t num_moved = 0;
  for (size_t i = 0; i < 32; ++i) {
    const int moved = report["rows_per_expert"][i].get<int>() - given["rows_per_expert"][i].get<int>();
    num_moved += static_cast<uint32_t>(std::abs(moved));
  }
  EXPECT_LE(num_moved, 8U);
}

TEST(Run, SharedExpertsAddToTheOutput) {
  const TemporaryFolder folder;
  const std::string without = folder.file("without.safetensors");
  const std::string with = folder.file("with.safetensors");
  ASSERT_EQ(call_cli(tiny_run("fp8") + " --repeat 1 --out " + without).exit_code, 0);
  const auto outcome = call_cli(tiny_run("fp8") + " --repeat 1 --shared on --check --json --ranks 2 --out " + with);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const json report = parse(outcome);
  EXPECT_TRUE(report["reference"]["ok"]);
  EXPECT_TRUE(report["stored"].is_null()) << "stored outputs are of routed experts alone";
  EXPECT_NE(read_file(with), read_file(without));
}

TEST(Run, WrongStoredOutputsFail) {
  // The same file with the y of one layer under the name of the other: a checker that looks must say no.
  const TemporaryFolder folder;
  const auto probe = SafeTensors::open(tiny_model_file("probe.safetensors"));
  ASSERT_TRUE(probe.ok());
  std::vector<TensorView> tensors;
  for (const std::string name : {"x", "topk_idx", "topk_weights"}) {
    tensors.push_back(*probe->find("layers.1." + name));
  }
  tensors.push_back(*probe->find("layers.2.y_fp8"));
  tensors.back().name = "layers.1.y_fp8";
  ASSERT_TRUE(write_safetensors(folder.file("t.safetensors"), tensors).ok());
  const auto outcome = call_cli("run --model " + tiny_model_file("fp8.safetensors") + " --layer 1 --tokens " +
                                folder.file("t.safetensors") + " --check --repeat 1");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_NE(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
}

TEST(Demo, PassesAndSaysOk) {
  const auto outcome = call_cli("demo");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with("\nok\n")) << outcome.out;
  for (const char* word : {"layer 1, fp8", "layer 2, mxfp4", "rows received", "####", "gemm1", "FP64 reference"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  }
}

TEST(Demo, JsonHoldsFourCheckedRuns) {
  const auto outcome = call_cli("demo --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json demo = parse(outcome);
  EXPECT_TRUE(demo["ok"]);
  ASSERT_EQ(demo["runs"].size(), 4U);
  for (const json& run : demo["runs"]) {
    EXPECT_TRUE(run["ok"]);
    EXPECT_EQ(run["tokens_per_rank"].size(), 4U);
    EXPECT_TRUE(run["stored"]["ok"]);
  }
}

}  // namespace
}  // namespace megamoe
