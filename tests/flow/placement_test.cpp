// Where experts live: every split of E experts over R ranks.

#include "flow/route.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace megamoe::flow {
namespace {

TEST(Placement, EveryExpertHasOneHomeAndComesBack) {
  for (uint32_t num_experts = 1; num_experts <= 40; ++num_experts) {
    for (uint32_t num_ranks = 1; num_ranks <= 9; ++num_ranks) {
      for (uint32_t num_shared = 0; num_shared <= 2; ++num_shared) {
        const Placement placement{num_experts, num_shared, num_ranks};
        std::vector<uint32_t> num_owned(num_ranks, 0);
        for (uint32_t e = 0; e < num_experts; ++e) {
          const Rank owner = placement.owner(Expert{e}, Rank{0});
          ASSERT_LT(num(owner), num_ranks);
          EXPECT_EQ(num(owner), num(placement.owner(Expert{e}, Rank{num_ranks - 1})));
          const LocalExpert local = placement.local(Expert{e}, owner);
          ASSERT_GE(num(local), num_shared);
          ASSERT_LT(num(local), placement.num_local(owner));
          EXPECT_EQ(num(placement.global(local, owner)), e);
          ++num_owned[num(owner)];
        }
        for (uint32_t r = 0; r < num_ranks; ++r) {
          EXPECT_EQ(num_owned[r], placement.num_routed(Rank{r}));
          EXPECT_LE(num_owned[0] - num_owned[r], 1U);
        }
      }
    }
  }
}

TEST(Placement, SharedExpertsStayAtHome) {
  const Placement placement{30, 2, 8};
  for (uint32_t home = 0; home < 8; ++home) {
    for (uint32_t s = 0; s < 2; ++s) {
      const Expert expert{30 + s};
      EXPECT_EQ(num(placement.owner(expert, Rank{home})), home);
      EXPECT_EQ(num(placement.local(expert, Rank{home})), s);
      EXPECT_EQ(num(placement.global(LocalExpert{s}, Rank{home})), 30 + s);
    }
  }
}

TEST(Route, SlotsNameTokenAndChoice) {
  Dims dims;
  dims.top_k = 3;
  dims.num_shared = 1;
  for (uint32_t token = 0; token < 50; ++token) {
    for (uint32_t choice = 0; choice < 4; ++choice) {
      const Slot slot = make_slot(Token{token}, Choice{choice}, dims);
      EXPECT_EQ(num(slot), token * 4 + choice);
      EXPECT_EQ(num(slot_token(slot, dims)), token);
      EXPECT_EQ(num(slot_choice(slot, dims)), choice);
    }
  }
}

TEST(Route, ChoicesSkipMinusOneAndEndWithTheSharedExperts) {
  Dims dims;
  dims.num_experts = 10;
  dims.top_k = 4;
  dims.num_shared = 2;
  const int64_t ids[4] = {7, -1, 7, 0};
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  for_each_choice(ids, dims, [&](Choice choice, Expert expert) { seen.emplace_back(num(choice), num(expert)); });
  const std::vector<std::pair<uint32_t, uint32_t>> wanted = {{0, 7}, {2, 7}, {3, 0}, {4, 10}, {5, 11}};
  EXPECT_EQ(seen, wanted);
}

TEST(Share, CoversAllItemsOnceAndEvenly) {
  for (uint32_t count = 0; count <= 70; ++count) {
    for (uint32_t workers = 1; workers <= 9; ++workers) {
      uint32_t next = 0;
      for (uint32_t w = 0; w < workers; ++w) {
        const Range range = share(count, w, workers);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), ceil_div(count, workers));
        EXPECT_GE(range.size(), count / workers);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace megamoe::flow
