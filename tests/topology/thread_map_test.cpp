// The rule that deals workers over cores and memory over nodes.

#include "topology/thread_map.hpp"

#include <gtest/gtest.h>

#include <set>

#include "topology_testing.hpp"

namespace megamoe::topology {
namespace {

using Nodes = std::vector<uint32_t>;

Nodes nodes_of(const Topology& machine, const Workers& workers, Pin pin, uint32_t rank) {
  return ThreadMap(machine, workers, pin).nodes(rank);
}

TEST(ThreadMap, RanksTakeContiguousSharesOfTheNodes) {
  const Topology machine = machine_of(2, 4, 1);
  for (const Pin pin : {Pin::node, Pin::core}) {
    const ThreadMap map(machine, {4, 2}, pin);
    EXPECT_EQ(map.nodes(0), Nodes{0});
    EXPECT_EQ(map.nodes(1), Nodes{0});
    EXPECT_EQ(map.nodes(2), Nodes{1});
    EXPECT_EQ(map.nodes(3), Nodes{1});
  }
  const ThreadMap map(machine, {4, 2}, Pin::node);
  EXPECT_EQ(map.place(1, 1)->cpus, (CpuList{0, 1, 2, 3}));
  EXPECT_EQ(map.place(2, 0)->cpus, (CpuList{4, 5, 6, 7}));
  EXPECT_EQ(map.place(0, 0), map.place(1, 1));
}

TEST(ThreadMap, OneRankOverAllNodesDealsItsMemoryOverThem) {
  const Topology machine = machine_of(4, 2, 2);
  EXPECT_EQ(nodes_of(machine, {1, 16}, Pin::node, 0), (Nodes{0, 1, 2, 3}));
  EXPECT_EQ(nodes_of(machine, {2, 8}, Pin::node, 0), (Nodes{0, 1}));
  EXPECT_EQ(nodes_of(machine, {2, 8}, Pin::node, 1), (Nodes{2, 3}));
  EXPECT_EQ(ThreadMap(machine, {2, 8}, Pin::node).shared_nodes(2), (Nodes{0, 1, 2, 3}));
}

TEST(ThreadMap, RankAcrossTwoNodesHasMemoryOnBoth) {
  const Topology machine = machine_of(2, 3, 1);
  const ThreadMap map(machine, {3, 2}, Pin::node);
  EXPECT_EQ(map.nodes(0), Nodes{0});
  EXPECT_EQ(map.nodes(1), (Nodes{0, 1}));
  EXPECT_EQ(map.nodes(2), Nodes{1});
}

TEST(ThreadMap, EveryCoreIsUsedOnceBeforeAnyIsUsedTwice) {
  for (const uint32_t num_ranks : {1U, 2U, 4U, 8U}) {
    const ThreadMap map(machine_of(2, 4, 2), {num_ranks, 8 / num_ranks}, Pin::core);
    std::set<CpuList> seen;
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      for (uint32_t worker = 0; worker < 8 / num_ranks; ++worker) seen.insert(map.place(rank, worker)->cpus);
    }
    EXPECT_EQ(seen.size(), 8U) << num_ranks;
  }
}

TEST(ThreadMap, FewThreadsAreSpreadAndManyShare) {
  const Topology machine = machine_of(2, 4, 1);
  EXPECT_EQ(nodes_of(machine, {1, 2}, Pin::node, 0), (Nodes{0, 1}));
  EXPECT_EQ(nodes_of(machine, {1, 1}, Pin::node, 0), Nodes{0});
  // More threads than cores: as many on each core.
  const ThreadMap map(machine, {1, 32}, Pin::core);
  std::vector<uint32_t> load(8);
  for (uint32_t worker = 0; worker < 32; ++worker) ++load[map.place(0, worker)->cpus.front()];
  for (const uint32_t threads : load) EXPECT_EQ(threads, 4U);
}

TEST(ThreadMap, MoreRanksThanCores) {
  const ThreadMap map(machine_of(2, 1, 1), {64, 3}, Pin::node);
  EXPECT_EQ(map.nodes(0), Nodes{0});
  EXPECT_EQ(map.nodes(31), Nodes{0});
  EXPECT_EQ(map.nodes(32), Nodes{1});
  EXPECT_EQ(map.nodes(63), Nodes{1});
}

TEST(ThreadMap, UnequalNodesGetUnequalShares) {
  Topology machine = machine_of(2, 6, 1);
  machine = restricted(machine, {0, 1, 6, 7, 8, 9, 10, 11});
  const ThreadMap map(machine, {4, 2}, Pin::node);
  EXPECT_EQ(map.nodes(0), Nodes{0});
  for (const uint32_t rank : {1U, 2U, 3U}) EXPECT_EQ(map.nodes(rank), Nodes{1});
}

TEST(ThreadMap, NodesKeepTheSystemsNumbers) {
  Topology machine = machine_of(2, 2, 1);
  machine.nodes[0].os_idx = 4;
  machine.nodes[1].os_idx = 2;
  const ThreadMap map(machine, {2, 2}, Pin::node);
  EXPECT_EQ(map.nodes(0), Nodes{4});
  EXPECT_EQ(map.nodes(1), Nodes{2});
  EXPECT_EQ(map.shared_nodes(2), (Nodes{2, 4}));
}

TEST(ThreadMap, UnboundThreadsRoamAndSoDoesTheirMemory) {
  const ThreadMap map(machine_of(2, 4, 1), {4, 2}, Pin::none);
  EXPECT_EQ(map.place(0, 0), nullptr);
  EXPECT_EQ(map.place(3, 1), nullptr);
  for (const uint32_t rank : {0U, 3U}) EXPECT_EQ(map.nodes(rank), (Nodes{0, 1}));
}

TEST(ThreadMap, OneNodeLeavesMemoryAlone) {
  for (const Pin pin : {Pin::none, Pin::node, Pin::core}) {
    const ThreadMap map(machine_of(1, 4, 1), {2, 2}, pin);
    EXPECT_TRUE(map.nodes(0).empty());
    EXPECT_TRUE(map.nodes(1).empty());
    EXPECT_TRUE(map.shared_nodes(2).empty());
  }
}

TEST(ThreadMap, AProcessOfSeveralHasItsOwnRanksShare) {
  const Topology machine = machine_of(2, 4, 1);
  const ThreadMap all(machine, {4, 2}, Pin::core);
  const ThreadMap last(machine, {4, 2, 3}, Pin::core);
  EXPECT_EQ(last.place(0, 1)->cpus, all.place(3, 1)->cpus);
  EXPECT_EQ(last.nodes(0), all.nodes(3));
  EXPECT_EQ(last.shared_nodes(1), Nodes{1});
}

TEST(ResolvePin, AutomaticBindsOnlyThreadsThatFillSeveralNodes) {
  const Topology two = machine_of(2, 4, 2);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {1, 16}), Pin::node);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {1, 8}), Pin::node);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {1, 7}), Pin::none);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {4, 4}), Pin::node);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {4, 1}), Pin::none);
  // 3 ranks cannot share 8 cores evenly, 64 have one thread each: that is full all the same.
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {3, 2}), Pin::node);
  EXPECT_EQ(resolve_pin(Pin::automatic, two, {64, 1}), Pin::node);
  EXPECT_EQ(resolve_pin(Pin::automatic, machine_of(1, 8, 1), {1, 8}), Pin::none);
  for (const Pin pin : {Pin::none, Pin::node, Pin::core}) {
    EXPECT_EQ(resolve_pin(pin, machine_of(1, 8, 1), {1, 1}), pin);
    EXPECT_EQ(resolve_pin(pin, two, {1, 1}), pin);
  }
}

}  // namespace
}  // namespace megamoe::topology
