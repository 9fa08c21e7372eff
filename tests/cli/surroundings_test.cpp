// The command among others: many at once, few CPUs, no place to write, limits that make no sense.

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli_process.hpp"

namespace megamoe {
namespace {

using testing::call_cli;
using testing::read_file;
using testing::TemporaryFolder;
using testing::tiny_run;

TEST(Surroundings, Case35_EightProcessesAtOnceFromAReadOnlyFolder) {
  const TemporaryFolder read_only;
  const TemporaryFolder results;
  std::filesystem::permissions(read_only.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  std::vector<std::thread> processes;
  std::vector<testing::CliOutcome> outcomes(8);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    processes.emplace_back([&, i] {
      // Every place where a cache could go is out of reach.
      const std::string folder = read_only.path().string();
      outcomes[i] =
          call_cli(tiny_run("fp8") + " --repeat 1 --check --ranks 2 --out " + results.file(std::to_string(i)) +
                   " ; cd " + folder + " && HOME=" + folder + " XDG_CACHE_HOME=" + folder + " TMPDIR=" + folder +
                   " " MM_CLI " " + tiny_run("mxfp4") + " --repeat 1 --check --ranks 2");
    });
  }
  for (std::thread& process : processes) process.join();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].exit_code, 0) << outcomes[i].err;
    EXPECT_EQ(read_file(results.file(std::to_string(i))), read_file(results.file("0")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(read_only.path()));
  std::filesystem::permissions(read_only.path(), std::filesystem::perms::owner_all);
}

TEST(Surroundings, Case15_HalfOfTheCpusVisible) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  // Children inherit the mask; one CPU must serve four ranks of three workers.
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const auto outcome = call_cli(tiny_run("fp8") + " --repeat 1 --check --ranks 4 --threads 3");
  const auto pinned = call_cli(tiny_run("fp8") + " --repeat 1 --check --ranks 2 --threads 2 --pin core");
  const auto plan = call_cli("plan --shape v3 --max-tokens 8");
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(pinned.exit_code, 0) << pinned.err;
  EXPECT_NE(plan.out.find("1, each with 1 threads"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("1 CPU in the affinity mask"), std::string::npos) << plan.out;
}

TEST(Surroundings, Case29_LimitsThatMakeNoSense) {
  for (const std::string value : {"0", "-1", "abc", "1e99", ""}) {
    const auto outcome = call_cli("plan --shape v3 --ranks 2 --max-tokens '" + value + "'");
    EXPECT_EQ(outcome.exit_code, 2) << value;
    EXPECT_NE(outcome.err.find("--max-tokens"), std::string::npos) << outcome.err;
    EXPECT_TRUE(outcome.out.empty()) << outcome.out;
  }
}

}  // namespace
}  // namespace megamoe
