// The grid barrier and the peer barrier hold what they promise, whoever runs when and however late writes arrive.

#include "cuda/sync/peer_barrier.hpp"
#include "rounds.hpp"

namespace megamoe::sync::testing {
namespace {

/// One launch on every rank; expects it clean and right.
template <class Meet>
void expect_rounds_hold(EmulatedRanks& ranks, const Shape& shape, Meet meet) {
  const Words words = allocate_words(ranks, shape);
  for (uint32_t rank = 0; rank < shape.num_ranks; ++rank) {
    ranks.launch(rank, shape.num_blocks, shape.num_threads, 64,
                 [&, rank] { run_rounds(ranks, words, shape, rank, meet); });
  }
  const emu::Report report = ranks.machine().run();
  ASSERT_TRUE(report.clean()) << report.to_string();
  ASSERT_EQ(num_wrong(words, shape), 0U);
  for (uint32_t rank = 0; rank < shape.num_ranks; ++rank) {
    const uint32_t* last = words[rank] + size_t{shape.num_blocks} * shape.num_threads - 1;
    ASSERT_EQ(*last, kNumRounds) << "the kernel gave up";
  }
}

/// Launches of different size follow each other on one word.
TEST(GridBarrier, HoldsForLaunchesOfAnySize) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), options_of(seed));
    for (const uint32_t num_blocks : {3U, 1U, 5U}) {
      expect_rounds_hold(ranks, {.num_blocks = num_blocks},
                         [](const Waiter& waiter, uint32_t* verdict) { return grid_barrier(waiter, verdict); });
    }
    const uint64_t arrivals = *ranks.workspace(0).get<flow::Field::worker_arrivals>();
    ASSERT_EQ(arrivals, uint64_t{3 * 2 * kNumRounds} << kArrivalBits) << "no arrivals are left over";
  }
}

class PeerBarrier : public ::testing::TestWithParam<uint32_t> {};

TEST_P(PeerBarrier, Holds) {
  const uint32_t num_ranks = GetParam();
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(num_ranks), options_of(seed));
    for (const uint32_t num_blocks : {2U, 3U}) {
      expect_rounds_hold(ranks, {.num_ranks = num_ranks, .num_blocks = num_blocks},
                         [](const Waiter& waiter, uint32_t* verdict) { return peer_barrier(waiter, verdict); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PeerBarrier, ::testing::Values(1U, 2U, 3U, 4U, 8U));

/// Barriers of a rank's own blocks may stand between those of all ranks.
TEST(PeerBarrier, MixesWithGridBarriers) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(2), options_of(seed));
    expect_rounds_hold(ranks, {.num_ranks = 2}, [](const Waiter& waiter, uint32_t* verdict) {
      return grid_barrier(waiter, verdict) && peer_barrier(waiter, verdict);
    });
  }
}

}  // namespace
}  // namespace megamoe::sync::testing
