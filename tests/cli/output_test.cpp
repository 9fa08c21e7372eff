// --json prints one valid value with the promised keys; info, inspect, plan and check say what they must.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli_process.hpp"

namespace megamoe {
namespace {

using nlohmann::json;
using testing::call_cli;
using testing::read_file;
using testing::TemporaryFolder;
using testing::tiny_model_file;
using testing::write_file;

/// Calls with --json and parses all of standard output; nothing may stand on standard error.
json call_json(const std::string& arguments) {
  const auto outcome = call_cli(arguments + " --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  json value = json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << outcome.out;
  return value;
}

void expect_keys(const json& value, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(value.contains(key)) << key << " is not in " << value.dump(2);
}

TEST(Output, InfoDescribesMachineAndBuild) {
  const json info = call_json("info");
  expect_keys(
      info, {"version", "build_type", "compiler", "backends", "cpu", "isas", "hardware_threads", "usable_threads",
             "cores", "numa_nodes", "cpu_quota", "default_threads", "can_place_memory", "memory_bytes", "gpus", "mpi"});
  EXPECT_GE(info["usable_threads"].get<uint32_t>(), 1U);
  EXPECT_GE(info["default_threads"].get<uint32_t>(), 1U);
  EXPECT_LE(info["default_threads"].get<uint32_t>(), info["usable_threads"].get<uint32_t>());
  EXPECT_GE(info["numa_nodes"].size(), 1U);
  EXPECT_EQ(info["isas"].back(), "scalar");
  const auto text = call_cli("info");
  EXPECT_NE(text.out.find(info["version"].get<std::string>()), std::string::npos);
}

TEST(Output, InspectFindsTheLayersOfBothFormats) {
  for (const std::string format : {"fp8", "mxfp4"}) {
    const json found = call_json("inspect " + tiny_model_file(format + ".safetensors"));
    expect_keys(found, {"path", "num_bytes", "num_tensors", "layers"});
    ASSERT_EQ(found["layers"].size(), 2U);
    const json& layer = found["layers"][0];
    EXPECT_EQ(layer["layer"], 1);
    EXPECT_EQ(layer["format"], format);
    EXPECT_EQ(layer["shape"]["hidden"], 256);
    EXPECT_EQ(layer["shape"]["intermediate"], 128);
    EXPECT_EQ(layer["shape"]["num_experts"], 32);
    EXPECT_EQ(layer["shape"]["top_k"], 4);
    EXPECT_EQ(layer["missing"].size(), 0U) << layer["missing"].dump();
  }
}

TEST(Output, InspectNamesWhatIsMissingAndWhatIsUnknown) {
  const TemporaryFolder folder;
  const std::string path = folder.file("odd.safetensors");
  std::string bytes = read_file(tiny_model_file("fp8.safetensors"));
  const std::string known = "layers.1.mlp.experts.0.gate_proj.weight_scale_inv";
  const std::string odd = "layers.1.mlp.experts.0.gate_proj.weight_scale_odd";
  const size_t place = bytes.find(known);
  ASSERT_NE(place, std::string::npos);
  write_file(path, bytes.replace(place, known.size(), odd));

  const json layer = call_json("inspect " + path)["layers"][0];
  ASSERT_EQ(layer["missing"].size(), 1U) << layer.dump();
  ASSERT_EQ(layer["unknown"].size(), 1U) << layer.dump();
  EXPECT_NE(layer["missing"][0].get<std::string>().find(known), std::string::npos) << layer["missing"].dump();
  EXPECT_NE(layer["unknown"][0].get<std::string>().find(odd), std::string::npos) << layer["unknown"].dump();
  const auto text = call_cli("inspect " + path);
  EXPECT_NE(text.out.find("MISSING"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("UNKNOWN"), std::string::npos) << text.out;
}

TEST(Output, PlanBuffersFillTheWorkspace) {
  const json plan = call_json("plan --shape v4-pro --ranks 8 --max-tokens 8192");
  expect_keys(plan, {"name", "shape", "ranks", "block_m", "gemm1_block_n", "gemm2_block_n", "num_pool_rows",
                     "workspace_bytes", "scratch_bytes", "buffers"});
  EXPECT_EQ(plan["shape"]["num_experts"], 384);
  uint64_t end = 0;
  for (const json& buffer : plan["buffers"]) {
    EXPECT_GE(buffer["offset"].get<uint64_t>(), end) << buffer["name"];
    end = buffer["offset"].get<uint64_t>() + buffer["bytes"].get<uint64_t>();
  }
  EXPECT_GT(end, 0U);
  EXPECT_LE(end, plan["workspace_bytes"].get<uint64_t>());
}

TEST(Output, PlanTextNamesEveryBuffer) {
  const json plan = call_json("plan --shape 256,128,8,2 --ranks 2 --max-tokens 16");
  const auto text = call_cli("plan --shape 256,128,8,2 --ranks 2 --max-tokens 16");
  for (const json& buffer : plan["buffers"]) {
    EXPECT_NE(text.out.find(buffer["name"].get<std::string>()), std::string::npos) << buffer["name"];
  }
}

TEST(Output, BitCasesOfARecordCanBeListed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("hashes.json");
  write_file(path, R"({"machine": "", "driver": "", "megamoe": "", "date": "", "command": "", "cases": {},
                      "hash": "FNV-1a, 64 bits, of the BF16 outputs of all ranks, rank after rank, low byte first"})");
  const json listed = call_json("check --backend chain --list --filter /pingpong --bits " + path);
  EXPECT_GE(listed["cases"].size(), 15U);
  for (const json& name : listed["cases"]) EXPECT_EQ(name.get<std::string>().find("bits/"), 0U) << name;
}

/// Of "ranks/1/even/uniform", an FP8 case, and of "ranks/1/even/zipf:1.4", an MXFP4 one.
std::vector<std::string> listed_ranks(const std::string& arguments) {
  return call_json("check --list --filter ranks/1/even/ " + arguments)["cases"];
}

TEST(Output, FullSuiteOfAGpuForcesEveryStrategy) {
  const std::vector<std::string> plain = {"ranks/1/even/uniform", "ranks/1/even/zipf:1.4", "ranks/1/even/one:5"};
  const std::vector<std::string> forced = {"ranks/1/even/uniform",          "ranks/1/even/uniform/cooperative",
                                           "ranks/1/even/uniform/pingpong", "ranks/1/even/uniform/small_batch",
                                           "ranks/1/even/zipf:1.4",         "ranks/1/even/one:5"};
  EXPECT_EQ(listed_ranks("--backend sm90 --suite full"), forced);
  EXPECT_EQ(listed_ranks("--backend chain --suite full"), forced);
  EXPECT_EQ(listed_ranks("--backend cpu --suite full"), plain);
  EXPECT_EQ(listed_ranks("--backend sm90"), std::vector<std::string>{"ranks/1/even/uniform"});
  // What a GPU runs, at least 400 of them, and what it cannot take.
  EXPECT_GE(call_json("check --list --backend sm90 --suite full")["cases"].size(), 800U);
}

TEST(Output, ForcedCasesAreSkippedWithoutAGpu) {
  const auto outcome = call_cli("check --backend sm90 --suite full --filter ranks/1/even/uniform");
  if (outcome.exit_code == 0) GTEST_SKIP() << "Hopper GPUs are here";
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
  for (const char* name : {"uniform ", "uniform/cooperative ", "uniform/pingpong ", "uniform/small_batch "}) {
    EXPECT_NE(outcome.out.find(std::string("skipped ranks/1/even/") + name), std::string::npos) << outcome.out;
  }
  EXPECT_NE(outcome.err.find("4 skipped on backend sm90"), std::string::npos) << outcome.err;
}

TEST(Output, SoakEndsWithItsCounts) {
  const json soaked = call_json("check --backend cpu --soak 5 --seed 3");
  expect_keys(soaked, {"backend", "seed", "layers", "calls", "calls_of_strategy", "rows", "worst_row_error", "finding",
                       "passed", "failed"});
  EXPECT_EQ(soaked["passed"], 5);
  EXPECT_EQ(soaked["failed"], 0);
  const auto text = call_cli("check --backend cpu --soak 2 --seed 3");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("\n2 passed, 0 failed\n"), std::string::npos) << text.out;
}

TEST(Output, CheckEndsWithItsCounts) {
  const json listed = call_json("check --list");
  ASSERT_GT(listed["cases"].size(), 0U);
  const std::string name = listed["cases"][0];
  const auto outcome = call_cli("check --filter '" + name + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const size_t last_line = outcome.out.rfind('\n', outcome.out.size() - 2) + 1;
  EXPECT_NE(outcome.out.find(" passed, 0 failed", last_line), std::string::npos) << outcome.out;

  const json checked = call_json("check --filter '" + name + "'");
  expect_keys(checked, {"backend", "suite", "passed", "failed", "skipped", "worst_row_error", "cases"});
  EXPECT_GE(checked["passed"].get<uint32_t>(), 1U);
  EXPECT_EQ(checked["cases"].size(), checked["passed"].get<size_t>());
  expect_keys(checked["cases"][0], {"name", "outcome", "worst_row_error", "num_rows", "seconds"});
}

TEST(Output, FullStandardOutputIsAFailure) {
  // /dev/full refuses every write; the command must not exit with 0.
  const auto outcome = call_cli("info >/dev/full; test $? -eq 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

}  // namespace
}  // namespace megamoe
