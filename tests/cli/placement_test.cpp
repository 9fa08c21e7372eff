// Where threads and memory go, as `plan` and `info` tell it, on machines that hwloc makes up: it takes HWLOC_SYNTHETIC
// from the environment. The affinity mask is this machine's, so that a made-up node holds one of its CPUs.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_process.hpp"
#include "topology/topology.hpp"

namespace megamoe {
namespace {

using nlohmann::json;
using testing::call_cli;

/// Sets HWLOC_SYNTHETIC for the commands that a test calls.
class MadeUpMachine {
 public:
  explicit MadeUpMachine(const char* description) { setenv("HWLOC_SYNTHETIC", description, 1); }
  ~MadeUpMachine() { unsetenv("HWLOC_SYNTHETIC"); }
};

json call_json(const std::string& arguments) {
  const auto outcome = call_cli(arguments + " --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

bool has_cpus_zero_and_one() {
  const topology::CpuList mask = topology::affinity_mask();
  return mask.size() >= 2 && mask[0] == 0 && mask[1] == 1 && topology::synthetic("numa:2 core:1 pu:1").ok();
}

TEST(Placement, PlanSaysWhichRankIsOnWhichNode) {
  if (!has_cpus_zero_and_one()) GTEST_SKIP() << "needs hwloc and the CPUs 0 and 1";
  const MadeUpMachine machine("numa:2 core:1 pu:1");
  const json info = call_json("info");
  ASSERT_EQ(info["numa_nodes"].size(), 2U) << info.dump(2);
  const std::string layer = "plan --shape v3 --max-tokens 8 --threads 1";
  const json filled = call_json(layer + " --ranks 2");
  EXPECT_EQ(filled["pin"], "node");
  EXPECT_EQ(filled["rank_nodes"], (json{{0}, {1}}));
  const json roaming = call_json(layer + " --ranks 2 --pin none");
  EXPECT_EQ(roaming["pin"], "none");
  EXPECT_EQ(roaming["rank_nodes"], (json{{0, 1}, {0, 1}}));
  EXPECT_EQ(call_json(layer + " --ranks 4")["rank_nodes"], (json{{0}, {0}, {1}, {1}}));
  const auto text = call_cli(layer + " --ranks 2");
  EXPECT_NE(text.out.find("node; rank 0 on node 0, rank 1 on node 1"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("in 2 NUMA nodes"), std::string::npos) << text.out;
}

TEST(Placement, OneNodeIsLeftAlone) {
  const json plan = call_json("plan --shape v3 --max-tokens 8 --ranks 2");
  if (plan["cpus"]["numa_nodes"].size() != 1) GTEST_SKIP() << "this machine has several nodes";
  EXPECT_EQ(plan["pin"], "none");
}

TEST(Placement, RunsOnMadeUpNodes) {
  if (!has_cpus_zero_and_one()) GTEST_SKIP() << "needs hwloc and the CPUs 0 and 1";
  const MadeUpMachine machine("numa:2 core:1 pu:1");
  for (const std::string pin : {"auto", "none", "node", "core"}) {
    const auto outcome = call_cli(testing::tiny_run("fp8") + " --repeat 1 --check --ranks 2 --threads 1 --pin " + pin);
    EXPECT_EQ(outcome.exit_code, 0) << pin << outcome.err;
  }
}

}  // namespace
}  // namespace megamoe
