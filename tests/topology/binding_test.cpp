// Threads go where the map says, and the caller's come back.

#include "topology/thread_binding.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "topology_testing.hpp"

namespace megamoe::topology {
namespace {

/// Two places on this machine; the same CPU twice where it has only one.
ThreadMap two_places() {
  const CpuList mask = affinity_mask();
  Topology machine;
  machine.nodes = {{0, {{{mask.front()}}}}, {1, {{{mask.back()}}}}};
  return {machine, {2, 1}, Pin::core};
}

TEST(Binding, VisitorsGetBackWhatTheyHad) {
  const ThreadMap map = two_places();
  const CpuList before = affinity_mask();
  {
    const Visit visit(map.place(1, 0));
    EXPECT_TRUE(visit.is_there());
    EXPECT_EQ(affinity_mask(), map.place(1, 0)->cpus);
  }
  EXPECT_EQ(affinity_mask(), before);
  const Visit nowhere(nullptr);
  EXPECT_EQ(affinity_mask(), before);
}

TEST(Binding, ThreadsMoveFromPlaceToPlaceAndAreFreedAgain) {
  const ThreadMap first = two_places();
  const ThreadMap second = two_places();
  const CpuList before = affinity_mask();
  std::thread([&] {
    move_to(nullptr);
    EXPECT_EQ(affinity_mask(), before);
    move_to(first.place(0, 0));
    EXPECT_EQ(affinity_mask(), first.place(0, 0)->cpus);
    move_to(second.place(1, 0));
    EXPECT_EQ(affinity_mask(), second.place(1, 0)->cpus);
    move_to(second.place(1, 0));
    EXPECT_EQ(affinity_mask(), second.place(1, 0)->cpus);
    move_to(nullptr);
    EXPECT_EQ(affinity_mask(), before);
  }).join();
  EXPECT_EQ(affinity_mask(), before);
}

TEST(Binding, CpusThatAreNotThereAreRefusedAndNothingChanges) {
  const CpuList before = affinity_mask();
  const Topology elsewhere = restricted(Topology{}, {CpuMask::kMaxCpus - 1});
  const ThreadMap map(elsewhere, {1, 1}, Pin::core);
  const Status status = try_binding(map, Pin::core);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("(got core); use pin none"), std::string::npos) << status.message();
  EXPECT_EQ(affinity_mask(), before);
  EXPECT_TRUE(try_binding(two_places(), Pin::core).ok());
  EXPECT_TRUE(try_binding(ThreadMap(elsewhere, {1, 1}, Pin::none), Pin::none).ok());
}

}  // namespace
}  // namespace megamoe::topology
