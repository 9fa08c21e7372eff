// Machines that hwloc makes up, affinity masks, and the number of threads that is useful.

#include "topology/topology.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

#include "topology_testing.hpp"

namespace megamoe::topology {
namespace {

TEST(Topology, TwoNodesOfFourCoresWithTwoThreads) {
  const Topology machine = machine_of(2, 4, 2);
  ASSERT_EQ(machine.nodes.size(), 2U);
  EXPECT_EQ(machine.num_cores(), 8U);
  EXPECT_EQ(machine.num_cpus(), 16U);
  EXPECT_EQ(machine.nodes[1].cpus(), (CpuList{8, 9, 10, 11, 12, 13, 14, 15}));
}

#if MM_HAVE_HWLOC
TEST(Topology, HwlocDescribesTheSameMachine) {
  const auto found = synthetic("numa:2 core:4 pu:2");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  const Topology made = machine_of(2, 4, 2);
  ASSERT_EQ(found->nodes.size(), made.nodes.size());
  for (size_t n = 0; n < made.nodes.size(); ++n) {
    EXPECT_EQ(found->nodes[n].os_idx, made.nodes[n].os_idx);
    ASSERT_EQ(found->nodes[n].cores.size(), made.nodes[n].cores.size());
    for (size_t c = 0; c < made.nodes[n].cores.size(); ++c) {
      EXPECT_EQ(found->nodes[n].cores[c].cpus, made.nodes[n].cores[c].cpus);
    }
  }
}

TEST(Topology, MachineWithoutCores) {
  const auto found = synthetic("numa:3 pu:5");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->nodes.size(), 3U);
  EXPECT_EQ(found->num_cores(), 15U);
  EXPECT_EQ(found->num_cpus(), 15U);
}

TEST(Topology, CpusNearToTwoMemoriesCountOnce) {
  const auto found = synthetic("pack:2 [numa] [numa] core:2 pu:1");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->nodes.size(), 2U);
  EXPECT_EQ(found->num_cpus(), 4U);
}

TEST(Topology, BadDescriptionIsRefused) {
  const auto found = synthetic("numa:two");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(found.status().message().find("numa:two"), std::string::npos);
}

TEST(Topology, ThisMachineRemembersWhereMemoryIsWanted) {
  if (!can_place_memory()) GTEST_SKIP() << "this system refuses memory policies";
  const std::vector<uint32_t> node = {usable().nodes.front().os_idx};
  constexpr uint64_t kNumBytes = 1 << 16;
  void* area = mmap(nullptr, kNumBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  auto* data = static_cast<std::byte*>(area);
  data[0] = std::byte{7};
  EXPECT_TRUE(memory_nodes(data).empty());
  place_memory(data, kNumBytes / 2, {});
  EXPECT_TRUE(memory_nodes(data).empty());
  place_memory(data, kNumBytes / 2, node);
  EXPECT_EQ(memory_nodes(data), node);
  EXPECT_TRUE(memory_nodes(data + kNumBytes / 2).empty());
  EXPECT_EQ(data[0], std::byte{7});
  munmap(area, kNumBytes);
}
#endif

TEST(Topology, MaskTakesCpusCoresAndNodesAway) {
  const Topology machine = machine_of(2, 4, 2);
  const Topology part = restricted(machine, {1, 4, 5, 15});
  ASSERT_EQ(part.nodes.size(), 2U);
  ASSERT_EQ(part.nodes[0].cores.size(), 2U);
  EXPECT_EQ(part.nodes[0].cores[0].cpus, CpuList{1});
  EXPECT_EQ(part.nodes[0].cores[1].cpus, (CpuList{4, 5}));
  EXPECT_EQ(part.nodes[1].cpus(), CpuList{15});

  const Topology second = restricted(machine, {9, 10});
  ASSERT_EQ(second.nodes.size(), 1U);
  EXPECT_EQ(second.nodes[0].os_idx, 1U);
}

TEST(Topology, EveryCpuOfTheMaskCountsKnownOrNot) {
  EXPECT_EQ(restricted(machine_of(1, 2, 1), {0, 7, 99}).cpus(), (CpuList{0, 7, 99}));
  const Topology unknown = restricted(Topology{}, {2, 3});
  ASSERT_EQ(unknown.nodes.size(), 1U);
  EXPECT_EQ(unknown.num_cores(), 2U);
}

TEST(Topology, UsableIsTheAffinityMask) {
  const CpuList mask = affinity_mask();
  ASSERT_FALSE(mask.empty());
  EXPECT_EQ(usable().cpus(), mask);
  const WithMask one({mask.back()});
  EXPECT_EQ(affinity_mask(), CpuList{mask.back()});
  EXPECT_EQ(usable().num_cpus(), 1U);
  EXPECT_EQ(usable().nodes.size(), 1U);
}

TEST(UsefulThreads, MaskOrQuotaWhicheverIsLess) {
  const Topology machine = machine_of(2, 4, 2);
  struct Case {
    std::optional<double> quota;
    uint32_t expected;
  };
  for (const auto& [quota, expected] :
       std::array{Case{std::nullopt, 16}, Case{0.01, 1}, Case{1.0, 1}, Case{1.01, 2}, Case{2.5, 3}, Case{15.0, 15},
                  Case{16.0, 16}, Case{400.0, 16}, Case{1e30, 16}}) {
    EXPECT_EQ(num_useful_threads(machine, quota), expected) << quota.value_or(-1);
  }
}

}  // namespace
}  // namespace megamoe::topology
