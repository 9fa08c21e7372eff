// Litmus tests: what late writes can show, and what releases and barriers rule out.

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/memory.hpp"
#include "testing.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Order;
using ptx::Scope;

constexpr uint64_t kNumSeeds = 200;

/// Rank 0 or block 0 writes a word and sets a flag; the other waits for the flag and reads the word. Counts the seeds
/// in which the word was old.
template <class Publish>
uint32_t count_stale(bool across_ranks, Publish publish) {
  uint32_t num_stale = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    Machine machine = make_machine({.seed = seed, .num_ranks = 2, .stores = Stores::delayed});
    uint32_t* words = words_of(machine, 1, std::vector<uint32_t>(128, 0));
    uint32_t* flag = words + 64;
    uint32_t seen = 0;
    const auto write = [&] {
      simt::store(words + simt::thread_idx(), 1U);
      publish(flag);
    };
    const auto read = [&] {
      if (simt::thread_idx() != 0) return;
      while (ptx::ld_acquire<Scope::sys>(flag) == 0) {
      }
      for (uint32_t i = 0; i < simt::num_threads(); ++i) seen += simt::load(words + i);
    };
    constexpr uint32_t kThreads = 64;
    if (across_ranks) {
      launch(machine, {.rank = 0, .num_threads = kThreads}, write);
      launch(machine, {.rank = 1, .num_threads = kThreads}, read);
    } else {
      launch(machine, {.rank = 1, .num_blocks = 2, .num_threads = kThreads},
             [&] { simt::block_idx() == 0 ? write() : read(); });
    }
    const Report report = machine.run();
    EXPECT_TRUE(report.clean()) << report.to_string();
    num_stale += seen != kThreads ? 1 : 0;
  }
  return num_stale;
}

template <Scope kScope>
void barrier_then_release(uint32_t* flag) {
  simt::sync_threads();
  if (simt::thread_idx() == 0) ptx::st_release<kScope>(flag, 1);
}

TEST(StoreOrder, AReleaseAfterABarrierPublishesTheWholeBlock) {
  EXPECT_EQ(count_stale(false, barrier_then_release<Scope::gpu>), 0U);
  EXPECT_EQ(count_stale(true, barrier_then_release<Scope::sys>), 0U);
}

TEST(StoreOrder, AFenceAndARelaxedAtomicPublishToo) {
  const auto publish = [](uint32_t* flag) {
    simt::sync_threads();
    if (simt::thread_idx() != 0) return;
    ptx::fence_acq_rel<Scope::sys>();
    ptx::red_add<Order::relaxed, Scope::sys>(flag, 1U);
  };
  EXPECT_EQ(count_stale(false, publish), 0U);
  EXPECT_EQ(count_stale(true, publish), 0U);
}

TEST(StoreOrder, ARelaxedFlagMayOvertake) {
  const auto publish = [](uint32_t* flag) {
    simt::sync_threads();
    if (simt::thread_idx() == 0) ptx::st_relaxed<Scope::sys>(flag, 1);
  };
  EXPECT_GT(count_stale(false, publish), 0U);
  EXPECT_GT(count_stale(true, publish), 0U);
}

TEST(StoreOrder, AReleaseOfGpuScopeDoesNotReachPeers) {
  EXPECT_EQ(count_stale(false, barrier_then_release<Scope::gpu>), 0U);
  EXPECT_GT(count_stale(true, barrier_then_release<Scope::gpu>), 0U);
}

TEST(StoreOrder, AReleaseWithoutBarrierPublishesOneThread) {
  const auto publish = [](uint32_t* flag) {
    if (simt::thread_idx() == 0) ptx::st_release<Scope::sys>(flag, 1);
  };
  EXPECT_GT(count_stale(true, publish), 0U);
}

/// A thread always sees its own writes, in order, and so does its block after a barrier.
TEST(StoreOrder, OwnWritesAreSeen) {
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find, .stores = Stores::delayed});
    uint32_t* words = words_of(machine, 0, std::vector<uint32_t>(64, 0));
    uint32_t num_wrong = 0;
    run_clean(machine, {.num_threads = 64}, [&] {
      auto* bytes = reinterpret_cast<uint8_t*>(words + simt::thread_idx());
      simt::store(words + simt::thread_idx(), 0x01010101U * simt::thread_idx());
      simt::store(bytes + 1, static_cast<uint8_t>(0xEE));
      const uint32_t wanted = (0x01010101U * simt::thread_idx() & 0xFFFF00FFU) | 0xEE00U;
      num_wrong += simt::load(words + simt::thread_idx()) != wanted ? 1 : 0;
      simt::sync_threads();
      const uint32_t other = simt::thread_idx() ^ 33U;
      num_wrong += simt::load(words + other) != ((0x01010101U * other & 0xFFFF00FFU) | 0xEE00U) ? 1 : 0;
    });
    ASSERT_EQ(num_wrong, 0U);
  }
}

}  // namespace

}  // namespace megamoe::emu::testing
