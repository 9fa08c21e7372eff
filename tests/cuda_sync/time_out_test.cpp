// Waits end: on time-out the waiter says what it waited for, and every rank stops.

#include "cuda/sync/peer_barrier.hpp"
#include "emulated_ranks.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::sync::testing {
namespace {

constexpr uint32_t kNumBlocks = 2;
constexpr uint32_t kNumThreads = 64;

emu::Options stalling_options(uint64_t seed) {
  emu::Options options = options_of(seed);
  options.stall = emu::Stall::advances_clock;
  return options;
}

/// Queues a kernel that meets once and counts the threads that were told to stop.
template <class Meet>
void launch_meeting(EmulatedRanks& ranks, uint32_t rank, uint32_t num_blocks, uint32_t* num_stopped, Meet meet) {
  ranks.launch(rank, num_blocks, kNumThreads, 64, [=, &ranks] {
    Waiter waiter = ranks.waiter(rank, kNumBlocks);
    waiter.stage = static_cast<uint32_t>(Stage::exchange);
    if (meet(waiter, reinterpret_cast<uint32_t*>(simt::dynamic_shared()))) return;
    ptx::red_add<ptx::Order::relaxed, ptx::Scope::sys>(num_stopped, 1U);
  });
}

uint32_t* zero_word(EmulatedRanks& ranks) {
  auto* word = ranks.machine().allocate<uint32_t>(0, 1);
  ranks.machine().fill(word, 0, sizeof(uint32_t));
  return word;
}

TEST(TimeOut, ARankThatNeverArrivesIsNamedByEveryOther) {
  constexpr uint32_t kRanks = 3;
  constexpr uint32_t kAbsent = 1;
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(kRanks), stalling_options(seed));
    uint32_t* num_stopped = zero_word(ranks);
    for (const uint32_t rank : {0U, 2U}) {
      launch_meeting(ranks, rank, kNumBlocks, num_stopped,
                     [](const Waiter& waiter, uint32_t* verdict) { return peer_barrier(waiter, verdict); });
    }
    const emu::Report report = ranks.machine().run();
    ASSERT_TRUE(report.clean()) << report.to_string();
    EXPECT_EQ(*num_stopped, 2 * kNumBlocks * kNumThreads);

    uint32_t num_records = 0;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(*ranks.workspace(rank).get<flow::Field::abort_flag>(), 1U) << "the absent rank will stop, too";
      const flow::FaultRecord& fault = *ranks.workspace(rank).get<flow::Field::fault>();
      if (fault.is_set == 0) continue;
      ++num_records;
      EXPECT_EQ(fault.is_set, kFaultIsSet);
      EXPECT_EQ(fault.rank, rank);
      EXPECT_NE(fault.rank, kAbsent);
      EXPECT_LT(fault.worker, kNumBlocks);
      EXPECT_EQ(fault.stage, static_cast<uint32_t>(Stage::exchange));
      EXPECT_EQ(fault.field, static_cast<uint32_t>(flow::Field::peer_epoch));
      EXPECT_EQ(fault.index, kAbsent);
      EXPECT_EQ(fault.seen, 0U);
      EXPECT_EQ(fault.wanted, 1U);
    }
    EXPECT_GE(num_records, 1U);
  }
}

TEST(TimeOut, ABlockThatNeverArrivesIsMissedByItsRank) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), stalling_options(seed));
    uint32_t* num_stopped = zero_word(ranks);
    launch_meeting(ranks, 0, kNumBlocks - 1, num_stopped,
                   [](const Waiter& waiter, uint32_t* verdict) { return grid_barrier(waiter, verdict); });
    const emu::Report report = ranks.machine().run();
    ASSERT_TRUE(report.clean()) << report.to_string();
    EXPECT_EQ(*num_stopped, (kNumBlocks - 1) * kNumThreads);
    const flow::FaultRecord& fault = *ranks.workspace(0).get<flow::Field::fault>();
    EXPECT_EQ(fault.is_set, kFaultIsSet);
    EXPECT_EQ(fault.field, static_cast<uint32_t>(flow::Field::worker_arrivals));
    EXPECT_EQ(fault.seen, (uint64_t{1} << kArrivalBits) - (kNumBlocks - 1));
    EXPECT_EQ(fault.wanted, uint64_t{1} << kArrivalBits);
  }
}

/// Somebody who arrives after the others have given up is stopped by the flag, long before its own time is up.
TEST(TimeOut, WhoComesLateStopsAtOnce) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(2), stalling_options(seed));
    uint32_t* num_stopped = zero_word(ranks);
    const uint32_t raised = 1;
    ranks.machine().write(ranks.workspace(0).get<flow::Field::abort_flag>(), &raised, sizeof raised);
    launch_meeting(ranks, 0, kNumBlocks, num_stopped,
                   [](const Waiter& waiter, uint32_t* verdict) { return peer_barrier(waiter, verdict); });
    const emu::Report report = ranks.machine().run();
    ASSERT_TRUE(report.clean()) << report.to_string();
    EXPECT_EQ(*num_stopped, kNumBlocks * kNumThreads);
    EXPECT_EQ(ranks.workspace(0).get<flow::Field::fault>()->is_set, 0U);
  }
}

/// A condition that holds is not doubted, whatever the abort flag says.
TEST(TimeOut, AWaitThatIsOverGoesOn) {
  EmulatedRanks ranks(small_dims(1), {});
  uint32_t* num_stopped = zero_word(ranks);
  launch_meeting(ranks, 0, kNumBlocks, num_stopped, [&](const Waiter& waiter, uint32_t*) {
    const uint32_t* flag = waiter.own().get<flow::Field::abort_flag>();
    return wait_until<ptx::Scope::sys>(waiter, flag, {flow::Field::abort_flag, 0, 0},
                                       [](uint32_t seen) { return seen == 0; });
  });
  const emu::Report report = ranks.machine().run();
  EXPECT_TRUE(report.clean()) << report.to_string();
  EXPECT_EQ(*num_stopped, 0U);
}

}  // namespace
}  // namespace megamoe::sync::testing
