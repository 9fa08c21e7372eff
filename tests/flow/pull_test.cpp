// The rotating pull order, against a walk that really takes turns.

#include "flow/pull.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace megamoe::flow {
namespace {

/// One row from every rank that still has one, round after round.
std::vector<PullSource> take_turns(const std::vector<uint32_t>& counts, uint32_t first_rank) {
  std::vector<PullSource> order;
  const uint32_t total = std::accumulate(counts.begin(), counts.end(), 0U);
  for (uint32_t round = 0; order.size() < total; ++round) {
    for (uint32_t i = 0; i < counts.size(); ++i) {
      const uint32_t r = (first_rank + i) % static_cast<uint32_t>(counts.size());
      if (counts[r] > round) order.push_back({Rank{r}, round});
    }
  }
  return order;
}

void expect_same_order(const std::vector<uint32_t>& counts, uint32_t first_rank) {
  const auto wanted = take_turns(counts, first_rank);
  for (uint32_t place = 0; place < wanted.size(); ++place) {
    const PullSource got = pull_source(counts.data(), static_cast<uint32_t>(counts.size()), Rank{first_rank}, place);
    ASSERT_EQ(num(got.rank), num(wanted[place].rank)) << "place " << place;
    ASSERT_EQ(got.list_idx, wanted[place].list_idx) << "place " << place;
  }
}

TEST(PullSource, AllCountsUpToFourOfOneToFourRanks) {
  for (uint32_t num_ranks = 1; num_ranks <= 4; ++num_ranks) {
    uint32_t num_combinations = 1;
    for (uint32_t r = 0; r < num_ranks; ++r) num_combinations *= 5;
    for (uint32_t code = 0; code < num_combinations; ++code) {
      std::vector<uint32_t> counts(num_ranks);
      uint32_t rest = code;
      for (uint32_t& count : counts) {
        count = rest % 5;
        rest /= 5;
      }
      for (uint32_t first = 0; first < num_ranks; ++first) expect_same_order(counts, first);
    }
  }
}

TEST(PullSource, SkewedCountsOfManyRanks) {
  expect_same_order({0, 1000, 3, 0, 7, 999, 1, 0, 12}, 4);
  std::vector<uint32_t> counts(64, 2);
  counts[17] = 500;
  expect_same_order(counts, 63);
}

TEST(PullSource, FirstPlacesTouchEveryRankOnce) {
  const std::vector<uint32_t> counts(8, 10);
  std::vector<int> touched(8, 0);
  for (uint32_t place = 0; place < 8; ++place) {
    ++touched[num(pull_source(counts.data(), 8, pull_first_rank(Rank{3}, 8), place).rank)];
  }
  for (const int times : touched) EXPECT_EQ(times, 1);
  EXPECT_EQ(num(pull_source(counts.data(), 8, pull_first_rank(Rank{3}, 8), 0).rank), 4U);
  EXPECT_EQ(num(pull_first_rank(Rank{7}, 8)), 0U);
}

TEST(PullSource, CountsNearTheLimitDoNotOverflow) {
  const std::vector<uint32_t> counts(4, 500'000'000);
  const PullSource last = pull_source(counts.data(), 4, Rank{0}, 1'999'999'999U);
  EXPECT_EQ(num(last.rank), 3U);
  EXPECT_EQ(last.list_idx, 499'999'999U);
}

}  // namespace
}  // namespace megamoe::flow
