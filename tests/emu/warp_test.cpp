// Warp collectives against what their documentation says, lane by lane.

#include "cuda/simt/warp.hpp"

#include "cuda/ptx/matrix_load.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/memory.hpp"
#include "testing.hpp"

namespace megamoe::emu::testing {

namespace {

/// Runs `value` in every lane of one warp and returns the 32 results.
template <class Function>
std::vector<uint32_t> in_each_lane(Function value) {
  Machine machine = make_machine({.seed = 5, .races = Races::find});
  uint32_t* results = words_of(machine, 0, std::vector<uint32_t>(32, 0));
  run_clean(machine, {.num_threads = 32}, [&] { simt::store(results + simt::lane_idx(), value(simt::lane_idx())); });
  return {results, results + 32};
}

TEST(Warp, ShufflesReadTheLaneThatTheyName) {
  const auto index = in_each_lane([](uint32_t lane) { return simt::shfl(simt::kAllLanes, lane * 3, lane + 5, 16); });
  const auto up = in_each_lane([](uint32_t lane) { return simt::shfl_up(simt::kAllLanes, lane * 3, 3, 8); });
  const auto down = in_each_lane([](uint32_t lane) { return simt::shfl_down(simt::kAllLanes, lane * 3, 3, 8); });
  const auto across = in_each_lane([](uint32_t lane) { return simt::shfl_xor(simt::kAllLanes, lane * 3, 5); });
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(index[lane], 3 * (lane / 16 * 16 + (lane + 5) % 16)) << lane;
    EXPECT_EQ(up[lane], 3 * (lane % 8 < 3 ? lane : lane - 3)) << lane;
    EXPECT_EQ(down[lane], 3 * (lane % 8 > 4 ? lane : lane + 3)) << lane;
    EXPECT_EQ(across[lane], 3 * (lane ^ 5U)) << lane;
  }
}

TEST(Warp, ShufflesMoveAnyTypeOfUpToEightBytes) {
  const auto results = in_each_lane([](uint32_t lane) {
    const double halves = simt::shfl_xor(simt::kAllLanes, lane + 0.5, 1);
    const float quarters = simt::shfl_xor(simt::kAllLanes, static_cast<float>(lane) + 0.25F, 1);
    return static_cast<uint32_t>(halves * 2 + static_cast<double>(quarters) * 4);
  });
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(results[lane], 6 * (lane ^ 1U) + 2);
}

TEST(Warp, MatrixLoadsDealOutTheRowsThatLanesName) {
  Machine machine = make_machine({.seed = 5, .races = Races::find});
  uint32_t* results = words_of(machine, 0, std::vector<uint32_t>(128, 0));
  run_clean(machine, {.num_threads = 32, .shared_bytes = 512}, [&] {
    uint8_t* rows = simt::dynamic_shared();  // 32 of 16 bytes; word w of row r is 4 r + w
    const uint32_t lane = simt::lane_idx();
    for (uint32_t w = 0; w < 4; ++w) simt::store(reinterpret_cast<uint32_t*>(rows) + 4 * lane + w, 4 * lane + w);
    simt::syncwarp();
    uint32_t words[4];
    ptx::load_matrices(rows + 16 * (31 - lane), words);
    for (uint32_t m = 0; m < 4; ++m) simt::store(results + 4 * lane + m, words[m]);
  });
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) EXPECT_EQ(results[4 * lane + m], 4 * (31 - (8 * m + lane / 4)) + lane % 4);
  }
}

TEST(Warp, VotesAndMatches) {
  const auto ballot = in_each_lane([](uint32_t lane) { return simt::ballot(simt::kAllLanes, lane % 3 == 0); });
  const auto match = in_each_lane([](uint32_t lane) { return simt::match_any(simt::kAllLanes, lane % 4); });
  const auto any_all = in_each_lane([](uint32_t lane) {
    return (simt::any(simt::kAllLanes, lane == 9) ? 1U : 0U) | (simt::any(simt::kAllLanes, false) ? 2U : 0U) |
           (simt::all(simt::kAllLanes, lane < 32) ? 4U : 0U) | (simt::all(simt::kAllLanes, lane < 31) ? 8U : 0U);
  });
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(ballot[lane], 0x49249249U);
    EXPECT_EQ(match[lane], 0x11111111U << lane % 4);
    EXPECT_EQ(any_all[lane], 5U);
  }
}

TEST(Warp, Reductions) {
  const auto sums = in_each_lane([](uint32_t lane) { return simt::reduce_add(simt::kAllLanes, lane + 1); });
  const auto signed_min = in_each_lane([](uint32_t lane) {
    return static_cast<uint32_t>(simt::reduce_min(simt::kAllLanes, 10 - static_cast<int32_t>(lane)));
  });
  const auto unsigned_max =
      in_each_lane([](uint32_t lane) { return simt::reduce_max(simt::kAllLanes, lane ^ 0x80000000U); });
  const auto bits = in_each_lane([](uint32_t lane) {
    return simt::reduce_or(simt::kAllLanes, 1U << lane % 5) + simt::reduce_and(simt::kAllLanes, lane | 0x100U) +
           simt::reduce_xor(simt::kAllLanes, 0x1000U * (lane == 3 ? 1U : 0U));
  });
  EXPECT_EQ(sums, std::vector<uint32_t>(32, 528));
  EXPECT_EQ(signed_min, std::vector<uint32_t>(32, static_cast<uint32_t>(-21)));
  EXPECT_EQ(unsigned_max, std::vector<uint32_t>(32, 0x8000001FU));
  EXPECT_EQ(bits, std::vector<uint32_t>(32, 31U + 0x100U + 0x1000U));
}

TEST(Warp, DisjointMasksRunSideBySide) {
  const auto sums = in_each_lane([](uint32_t lane) {
    uint32_t sum = 0;
    const uint32_t mask = lane < 12 ? 0xFFFU : 0xFFFFF000U;
    for (uint32_t round = 0; round < (lane < 12 ? 3U : 5U); ++round) sum += simt::reduce_add(mask, 1U);
    return sum;
  });
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(sums[lane], lane < 12 ? 36U : 100U);
}

/// One leader, the same one every time; which one differs between seeds.
TEST(Warp, ElectsOneLane) {
  uint32_t leaders = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Machine machine = make_machine({.seed = seed});
    uint32_t* counts = words_of(machine, 0, std::vector<uint32_t>(32, 0));
    run_clean(machine, {.num_threads = 32}, [&] {
      for (uint32_t i = 0; i < 4; ++i) {
        if (simt::elect_one()) simt::store(counts + simt::lane_idx(), simt::load(counts + simt::lane_idx()) + 1);
      }
    });
    for (uint32_t lane = 0; lane < 32; ++lane) {
      EXPECT_TRUE(counts[lane] == 0 || counts[lane] == 4) << counts[lane];
      if (counts[lane] == 4) leaders |= 1U << lane;
    }
  }
  EXPECT_GT(__builtin_popcount(leaders), 8);
}

}  // namespace

}  // namespace megamoe::emu::testing
