// The packed count-and-arrived word, alone and under threads.

#include "flow/count.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace megamoe::flow {
namespace {

TEST(CountWord, HoldsRowsAndReportsApart) {
  CountWord word;
  for (const uint32_t rows : {0U, 5U, 0U, 4'000'000'000U}) word.bits += CountWord::report(rows);
  EXPECT_EQ(word.num_rows(), 4'000'000'005U);
  EXPECT_EQ(word.num_reported(), 4U);
  EXPECT_TRUE(word.is_final(4));
  EXPECT_FALSE(word.is_final(5));
}

TEST(Prefix, EveryOrderOfThreeWorkersTilesTheRows) {
  std::vector<uint32_t> order = {0, 1, 2};
  const uint32_t rows[3] = {3, 0, 5};
  do {
    uint64_t bits = 0;
    std::vector<int> taken(8, 0);
    int num_completing = 0;
    for (const uint32_t worker : order) {
      const Prefix prefix{{bits}, rows[worker]};
      bits += CountWord::report(rows[worker]);
      for (uint32_t i = 0; i < rows[worker]; ++i) ++taken[prefix.base() + i];
      if (prefix.completes(3)) {
        ++num_completing;
        EXPECT_EQ(prefix.total(), 8U);
      }
    }
    EXPECT_EQ(num_completing, 1);
    for (const int times : taken) EXPECT_EQ(times, 1);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Prefix, ThreadsGetDisjointRunsAndOneCompletes) {
  constexpr uint32_t kNumWorkers = 8;
  constexpr uint32_t kNumWords = 200;
  std::vector<std::atomic<uint64_t>> words(kNumWords);
  std::vector<std::vector<std::atomic<int>>> taken(kNumWords);
  uint32_t all = 0;
  for (uint32_t w = 0; w < kNumWorkers; ++w) all += w;
  for (auto& rows : taken) rows = std::vector<std::atomic<int>>(all);
  std::atomic<uint32_t> num_completing = 0;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kNumWorkers; ++w) {
    threads.emplace_back([&, w] {
      for (uint32_t e = 0; e < kNumWords; ++e) {
        const Prefix prefix{{words[e].fetch_add(CountWord::report(w))}, w};
        for (uint32_t i = 0; i < w; ++i) ++taken[e][prefix.base() + i];
        if (prefix.completes(kNumWorkers)) ++num_completing;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_completing, kNumWords);
  for (auto& rows : taken) {
    for (auto& times : rows) ASSERT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace megamoe::flow
