// A kernel of the kind that the machine is for: a producer warp with bulk copies into a ring, consumers, rows pushed to
// a peer, counters, a grid barrier and a peer barrier. Right in every interleaving, and the emulator has nothing to
// say.

#include <sstream>

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "doc_section.hpp"
#include "seeds.hpp"
#include "testing.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Order;
using ptx::Scope;

constexpr uint32_t kNumRanks = 2;
constexpr uint32_t kNumBlocks = 2;
constexpr uint32_t kNumStages = 3;
constexpr uint32_t kRowWords = 64;
constexpr uint32_t kRowBytes = kRowWords * 4;
constexpr uint32_t kRowsPerBlock = 7;
constexpr uint32_t kNumRows = kNumBlocks * kRowsPerBlock;
constexpr uint32_t kConsumers = 64;

struct Rank {
  uint32_t* rows;     // [kNumRows, kRowWords], read by this rank
  uint32_t* inbox;    // [kNumRows, kRowWords], written by the other rank
  uint32_t* sums;     // [kNumRows], of the inbox
  uint32_t* arrived;  // rows that have arrived here
  uint32_t* at_grid;  // blocks that have reached the grid barrier
};

/// What a planted mistake leaves out.
enum class Omit : uint8_t { nothing, stage_release, proxy_fence, write_wait, election_before_the_loop };

void exchange(const Rank& mine, const Rank& peer, Omit omit) {
  auto* full = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
  uint64_t* empty = full + kNumStages;
  uint8_t* stages = simt::dynamic_shared() + 1024;
  uint8_t* outgoing = stages + kNumStages * kRowBytes;
  if (simt::thread_idx() == 0) {
    for (uint32_t i = 0; i < kNumStages; ++i) {
      ptx::mbarrier_init(full + i, 1);
      ptx::mbarrier_init(empty + i, kConsumers / 32);
    }
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  const uint32_t first_row = simt::block_idx() * kRowsPerBlock;
  if (simt::warp_idx() == 0) {
    const bool votes_each_time = omit == Omit::election_before_the_loop;
    const bool is_producer = votes_each_time || simt::elect_one();
    for (uint32_t i = 0; i < kRowsPerBlock && is_producer && (!votes_each_time || simt::elect_one()); ++i) {
      const uint32_t stage = i % kNumStages;
      ptx::mbarrier_wait(empty + stage, (i / kNumStages & 1U) ^ 1U);
      ptx::mbarrier_arrive_expect_tx(full + stage, kRowBytes);
      ptx::bulk_load(stages + stage * kRowBytes, mine.rows + (first_row + i) * kRowWords, kRowBytes, full + stage);
    }
  } else {
    const uint32_t word = simt::thread_idx() - 32;
    for (uint32_t i = 0; i < kRowsPerBlock; ++i) {
      const uint32_t stage = i % kNumStages;
      ptx::mbarrier_wait(full + stage, i / kNumStages & 1U);
      const uint32_t value = simt::load(reinterpret_cast<uint32_t*>(stages + stage * kRowBytes) + word);
      simt::syncwarp();
      if (simt::elect_one() && omit != Omit::stage_release) ptx::mbarrier_arrive(empty + stage);
      simt::store(reinterpret_cast<uint32_t*>(outgoing) + word, value * 3);
      if (omit != Omit::proxy_fence) ptx::fence_proxy_async_shared();
      simt::barrier_sync(1, kConsumers);
      if (word == 0) {
        ptx::bulk_store(peer.inbox + (first_row + i) * kRowWords, outgoing, kRowBytes);
        ptx::bulk_commit_group();
        if (omit == Omit::write_wait) {
          ptx::bulk_wait_group_read<0>();
        } else {
          ptx::bulk_wait_group<0>();
        }
        ptx::red_add<Order::release, Scope::sys>(peer.arrived, 1U);
      }
      simt::barrier_sync(1, kConsumers);
    }
  }
  // All rows of the peer are here; then every block sums some of them up, and waits for the others.
  if (simt::thread_idx() == 0) {
    while (ptx::ld_acquire<Scope::sys>(mine.arrived) < kNumRows) {
    }
  }
  simt::sync_threads();
  for (uint32_t row = first_row + simt::warp_idx(); row < first_row + kRowsPerBlock; row += 3) {
    const uint32_t* words = mine.inbox + row * kRowWords + simt::lane_idx();
    const uint32_t sum = simt::reduce_add(simt::kAllLanes, simt::load(words) + simt::load(words + 32));
    if (simt::elect_one()) simt::store(mine.sums + row, sum);
  }
  simt::sync_threads();
  if (simt::thread_idx() == 0) {
    ptx::red_add<Order::release, Scope::gpu>(mine.at_grid, 1U);
    while (ptx::ld_acquire<Scope::gpu>(mine.at_grid) < kNumBlocks) {
    }
  }
  simt::sync_threads();
  if (simt::block_idx() == 0 && simt::thread_idx() < kNumRows) {
    const uint32_t sum = simt::load(mine.sums + simt::thread_idx());
    simt::store(mine.sums + simt::thread_idx(), sum + 1);
  }
}

uint32_t value_of(uint32_t rank, uint32_t idx) { return rank * 1'000'003 + idx * 77; }

Report run(Options options, Omit omit, bool* is_right) {
  options.num_ranks = kNumRanks;
  Machine machine = make_machine(options);
  Rank ranks[kNumRanks];
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
    std::vector<uint32_t> rows(kNumRows * kRowWords);
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = value_of(rank, i);
    ranks[rank] = {words_of(machine, rank, rows), machine.allocate<uint32_t>(rank, rows.size()),
                   machine.allocate<uint32_t>(rank, kNumRows), words_of(machine, rank, {0}),
                   words_of(machine, rank, {0})};
  }
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
    const Launch shape{.rank = rank,
                       .num_blocks = kNumBlocks,
                       .num_threads = 32 + kConsumers,
                       .shared_bytes = 1024 + (kNumStages + 1) * kRowBytes,
                       .residency = Residency::cooperative};
    launch(machine, shape, [&, rank] { exchange(ranks[rank], ranks[1 - rank], omit); });
  }
  Report report = machine.run();
  *is_right = report.clean();
  for (uint32_t rank = 0; rank < kNumRanks && *is_right; ++rank) {
    for (uint32_t row = 0; row < kNumRows; ++row) {
      uint32_t sum = 1;
      for (uint32_t i = 0; i < kRowWords; ++i) sum += 3 * value_of(1 - rank, row * kRowWords + i);
      *is_right = *is_right && ranks[rank].sums[row] == sum;
    }
  }
  return report;
}

TEST(Pipeline, IsRightAndCleanInEveryInterleaving) {
  for (const uint64_t seed : seeds()) {
    const Options options{.seed = seed,
                          .races = seed % 2 == 0 ? Races::find : Races::ignore,
                          .stores = seed % 4 < 2 ? Stores::immediate : Stores::delayed};
    bool is_right = false;
    const Report report = run(options, Omit::nothing, &is_right);
    ASSERT_TRUE(is_right) << "seed " << seed << ": " << report.to_string();
  }
}

TEST(Pipeline, EachOmissionIsFoundInEveryInterleaving) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Options options{.seed = seed, .races = Races::find};
    bool is_right = true;
    EXPECT_TRUE(run(options, Omit::stage_release, &is_right).found(FindingKind::deadlock)) << seed;
    EXPECT_TRUE(run(options, Omit::proxy_fence, &is_right).found(FindingKind::missing_proxy_fence)) << seed;
    const Report early = run(options, Omit::write_wait, &is_right);
    EXPECT_TRUE(early.found(FindingKind::read_write_race) || early.found(FindingKind::copy_in_flight) ||
                early.found(FindingKind::unwritten_read))
        << seed << ": " << early.to_string();
  }
}

/// A bug that this kernel had. `for (...; i < num_rows && elect_one(); ...)`: 31 lanes leave the loop in its first
/// round, and in the second the leader waits for them in the vote.
TEST(Pipeline, ElectionInTheConditionOfTheLoopIsNamed) {
  bool is_right = true;
  const Report report = run({.seed = 1}, Omit::election_before_the_loop, &is_right);
  ASSERT_TRUE(report.found(FindingKind::deadlock)) << report.to_string();
  // The other blocks wait alike.
  std::istringstream lines(report.to_string());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (text.empty() || line.find("rank 0 block 0 ") != std::string::npos) text += line + "\n";
  }
  EXPECT_NE(text.find("elect with mask 0xffffffff: lanes 0x"), std::string::npos) << text;
  expect_doc_section("election", "```\n" + text + "```\n");
}

}  // namespace

}  // namespace megamoe::emu::testing
