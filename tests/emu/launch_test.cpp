// Grids, clusters, ranks, residency, time: what a launch may rely on.

#include <cmath>

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/grid.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "testing.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Order;
using ptx::Scope;

TEST(Launch, EveryThreadRunsOnceUnderItsIndices) {
  Machine machine = make_machine({.seed = 2, .num_sms = 2});
  // More blocks than are resident at once.
  constexpr uint32_t kBlocks = 40;
  uint32_t* seen = words_of(machine, 0, std::vector<uint32_t>(kBlocks * 96, 0));
  run_clean(
      machine, {.num_blocks = kBlocks, .num_threads = 96, .num_cluster_blocks = 2, .shared_bytes = 60 * 1024}, [&] {
        const uint32_t idx = simt::block_idx() * simt::num_threads() + simt::thread_idx();
        const uint32_t value = simt::cluster_idx() * 1000 + simt::cluster_block_idx() * 100 + simt::warp_idx() * 10;
        simt::store(seen + idx, simt::load(seen + idx) + value + simt::num_blocks());
      });
  for (uint32_t block = 0; block < kBlocks; ++block) {
    for (uint32_t thread = 0; thread < 96; ++thread) {
      ASSERT_EQ(seen[block * 96 + thread], block / 2 * 1000 + block % 2 * 100 + thread / 32 * 10 + kBlocks);
    }
  }
}

TEST(Launch, RefusesWhatTheHardwareCannotHold) {
  Machine machine = make_machine({.num_sms = 4});
  const auto code = [&](const Launch& launch) { return machine.launch(launch, [] {}).code(); };
  EXPECT_EQ(code({.rank = 1}), StatusCode::invalid_argument);
  EXPECT_EQ(code({.num_threads = 1056}), StatusCode::invalid_argument);
  EXPECT_EQ(code({.num_blocks = 3, .num_cluster_blocks = 2}), StatusCode::invalid_argument);
  EXPECT_EQ(code({.shared_bytes = 227 * 1024 + 1}), StatusCode::invalid_argument);
  EXPECT_EQ(code({.num_threads = 512, .registers_per_thread = 168}), StatusCode::invalid_argument);
  const Launch large{.num_threads = 384, .shared_bytes = 200 * 1024, .residency = Residency::cooperative};
  Launch fits = large;
  fits.num_blocks = 4;
  EXPECT_EQ(code(fits), StatusCode::ok);
  Launch too_many = large;
  too_many.num_blocks = 5;
  const Status refused = machine.launch(too_many, [] {});
  EXPECT_EQ(refused.code(), StatusCode::unsupported);
  EXPECT_NE(refused.message().find("5 blocks, of which 4 fit"), std::string::npos) << refused.message();
}

/// Two cooperative launches that fit one by one but not together: the second's blocks would wait for each other.
TEST(Launch, FindsCooperativeBlocksThatAreNotResident) {
  Machine machine = make_machine({.num_sms = 4});
  const Launch shape{.num_blocks = 3,
                     .num_threads = 128,
                     .shared_bytes = 200 * 1024,
                     .order = LaunchOrder::concurrent,
                     .residency = Residency::cooperative};
  launch(machine, shape, [] { simt::sync_threads(); });
  launch(machine, shape, [] { simt::sync_threads(); });
  const Report report = machine.run();
  EXPECT_TRUE(report.found(FindingKind::launch)) << report.to_string();
}

/// The grid barrier that works as long as all blocks are resident.
TEST(Launch, BlocksThatWaitForAbsentOnesAreADeadlock) {
  for (const uint32_t num_sms : {4U, 3U}) {
    Machine machine = make_machine({.num_sms = num_sms});
    uint32_t* counter = words_of(machine, 0, {0});
    launch(machine, {.num_blocks = 4, .num_threads = 32, .shared_bytes = 200 * 1024}, [&] {
      if (simt::thread_idx() != 0) return;
      ptx::red_add<Order::release, Scope::gpu>(counter, 1U);
      while (ptx::ld_acquire<Scope::gpu>(counter) < 4) {
      }
    });
    const Report report = machine.run();
    EXPECT_EQ(report.clean(), num_sms == 4) << report.to_string();
    if (num_sms == 3) {
      EXPECT_NE(report.to_string().find("1 blocks of launch 0 on rank 0 have found no SM"), std::string::npos)
          << report.to_string();
    }
  }
}

TEST(Launch, LaunchesOfOneRankRunInStreamOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find, .stores = Stores::delayed});
    uint32_t* words = words_of(machine, 0, std::vector<uint32_t>(128, 0));
    launch(machine, {.num_blocks = 4},
           [&] { simt::store(words + simt::block_idx() * 32 + simt::lane_idx(), simt::block_idx() + 1); });
    launch(machine, {.num_blocks = 4}, [&] {
      const uint32_t other = (simt::block_idx() + 1) % 4;
      uint32_t* word = words + other * 32 + simt::lane_idx();
      simt::store(word, simt::load(word) * 10);
    });
    const Report report = machine.run();
    ASSERT_TRUE(report.clean()) << report.to_string();
    for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(words[i], (i / 32 + 1) * 10);
  }
}

/// A programmatic launch may run beside the one before; only griddepcontrol.wait orders them.
TEST(Launch, ProgrammaticLaunchesOverlapUntilTheyWait) {
  bool overlapped = false;
  for (const bool waits : {true, false}) {
    bool raced = false;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      Machine machine = make_machine({.seed = seed, .races = Races::find});
      uint32_t* words = words_of(machine, 0, std::vector<uint32_t>(96, 0));
      launch(machine, {}, [&] {
        simt::launch_dependents();
        simt::nanosleep(500);
        ptx::st_relaxed<Scope::gpu>(words + 64, 1);
        simt::store(words + simt::lane_idx(), 7U);
      });
      launch(machine, {.order = LaunchOrder::programmatic}, [&] {
        if (ptx::ld_relaxed<Scope::gpu>(words + 64) == 0) overlapped = true;
        if (waits) simt::wait_for_earlier_grid();
        simt::store(words + 32 + simt::lane_idx(), simt::load(words + simt::lane_idx()));
      });
      const Report report = machine.run();
      raced |= report.found(FindingKind::read_write_race);
      if (!waits) continue;
      ASSERT_TRUE(report.clean()) << report.to_string();
      for (uint32_t i = 0; i < 32; ++i) ASSERT_EQ(words[32 + i], 7U);
    }
    EXPECT_EQ(raced, !waits);
  }
  EXPECT_TRUE(overlapped);
}

TEST(Launch, RanksRunConcurrentlyAndReachEachOther) {
  constexpr uint32_t kRanks = 3;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine =
        make_machine({.seed = seed, .num_ranks = kRanks, .races = Races::find, .stores = Stores::delayed});
    std::vector<uint32_t*> inbox;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      inbox.push_back(words_of(machine, rank, std::vector<uint32_t>(2 * kRanks, 0)));
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      launch(machine, {.rank = rank}, [&, rank] {
        const uint32_t peer = simt::lane_idx();
        if (peer >= kRanks) return;
        simt::store(inbox[peer] + rank, rank + 1);
        ptx::st_release<Scope::sys>(inbox[peer] + kRanks + rank, 1);
        while (ptx::ld_acquire<Scope::sys>(inbox[rank] + kRanks + peer) == 0) {
        }
        simt::store(inbox[rank] + peer, simt::load(inbox[rank] + peer) * 100);
      });
    }
    const Report report = machine.run();
    ASSERT_TRUE(report.clean()) << report.to_string();
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (uint32_t peer = 0; peer < kRanks; ++peer) ASSERT_EQ(inbox[rank][peer], (peer + 1) * 100);
    }
  }
}

TEST(Launch, ClustersReadEachOthersSharedMemory) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find});
    uint32_t* results = words_of(machine, 0, std::vector<uint32_t>(8, 0));
    run_clean(machine, {.num_blocks = 8, .num_threads = 32, .num_cluster_blocks = 4, .shared_bytes = 1024}, [&] {
      auto* word = reinterpret_cast<uint32_t*>(simt::dynamic_shared());
      if (simt::lane_idx() == 0) simt::store(word, simt::block_idx() + 1);
      simt::cluster_arrive();
      simt::cluster_wait();
      if (simt::lane_idx() == 0) {
        const uint32_t next = (simt::cluster_block_idx() + 1) % simt::num_cluster_blocks();
        simt::store(results + simt::block_idx(), simt::load(simt::map_to_block(word, next)));
      }
      simt::cluster_arrive();
      simt::cluster_wait();
    });
    for (uint32_t block = 0; block < 8; ++block) ASSERT_EQ(results[block], block / 4 * 4 + (block + 1) % 4 + 1);
  }
}

/// A kernel with a bounded wait ends by itself when the clock may jump, and says what it missed.
TEST(Launch, BoundedWaitsRunOut) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Machine machine = make_machine({.seed = seed, .stall = Stall::advances_clock});
    uint32_t* flag = words_of(machine, 0, {0, 0});
    run_clean(machine, {.num_threads = 64}, [&] {
      if (simt::thread_idx() == 0) {
        const uint64_t start = simt::global_timer_ns();
        while (ptx::ld_acquire<Scope::gpu>(flag) == 0) {
          if (simt::global_timer_ns() - start < 10'000'000'000) continue;
          simt::store(flag + 1, 0xBADU);  // the fault record
          break;
        }
      }
      simt::sync_threads();
    });
    EXPECT_EQ(flag[1], 0xBADU);
  }
}

TEST(Launch, AnUnboundedWaitIsADeadlockEvenWhenTheClockMayJump) {
  Machine machine = make_machine({.stall = Stall::advances_clock});
  uint32_t* flag = words_of(machine, 0, {0});
  launch(machine, {.num_threads = 1}, [&] {
    while (ptx::ld_acquire<Scope::gpu>(flag) == 0) {
    }
  });
  EXPECT_TRUE(machine.run().found(FindingKind::deadlock));
}

/// Looking a fixed number of times is no deadlock, although nothing else can run meanwhile.
TEST(Launch, ALoopThatGivesUpAfterSomeLooksEnds) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Machine machine = make_machine({.seed = seed});
    uint32_t* flag = words_of(machine, 0, {0});
    run_clean(machine, {.num_threads = 64}, [&] {
      for (uint32_t i = 0; i < 100 && simt::thread_idx() == 0; ++i) (void)ptx::ld_relaxed<Scope::gpu>(flag);
      simt::sync_threads();
    });
  }
}

TEST(Launch, StepLimitEndsALoopThatLooksAtNothing) {
  Machine machine = make_machine({.max_steps = 20'000});
  launch(machine, {.num_threads = 32}, [] {
    while (simt::clock_cycles() != 1) {
    }
  });
  EXPECT_TRUE(machine.run().found(FindingKind::step_limit));
}

TEST(Launch, AMachineRunsAgainAfterAFinding) {
  Machine machine = make_machine({});
  uint32_t* words = words_of(machine, 0, std::vector<uint32_t>(32, 0));
  launch(machine, {.num_threads = 64, .shared_bytes = 1024}, [] {
    if (simt::warp_idx() == 0) simt::barrier_sync(1, 64);
  });
  EXPECT_TRUE(machine.run().found(FindingKind::deadlock));
  run_clean(machine, {.shared_bytes = 1024}, [&] { simt::store(words + simt::lane_idx(), 5U); });
  EXPECT_EQ(words[31], 5U);
}

/// As the PTX manual says of red.add.f32 on global memory.
TEST(Launch, MemoryAddsFlushSubnormals) {
  Machine machine = make_machine({});
  const float start[] = {1e-39F, -1e-39F, 1.5e-38F, 1.0F};
  const float addend[] = {1e-39F, 0.0F, -1.4e-38F, 1e-39F};
  auto* sums = machine.allocate<float>(0, 4);
  machine.write(sums, start, sizeof start);
  run_clean(machine, {}, [&] {
    if (simt::lane_idx() < 4)
      ptx::red_add<Order::relaxed, Scope::gpu>(sums + simt::lane_idx(), addend[simt::lane_idx()]);
  });
  EXPECT_EQ(sums[0], 0.0F);
  EXPECT_FALSE(std::signbit(sums[0]));
  EXPECT_EQ(sums[1], 0.0F);
  EXPECT_EQ(sums[2], 0.0F);  // 1e-39, flushed
  EXPECT_EQ(sums[3], 1.0F);
}

TEST(Launch, WrittenMemoryIsKnownToTheHost) {
  Machine machine = make_machine({});
  auto* words = machine.allocate<uint32_t>(0, 64);
  ASSERT_NE(words, nullptr);
  run_clean(machine, {}, [&] { simt::store(words + simt::lane_idx(), 1U); });
  EXPECT_TRUE(machine.is_written(words, 128));
  EXPECT_FALSE(machine.is_written(words, 132));
  machine.forget(words, 4);
  EXPECT_FALSE(machine.is_written(words, 128));
  EXPECT_EQ(machine.allocate_bytes(0, size_t{1} << 30), nullptr);
}

}  // namespace

}  // namespace megamoe::emu::testing
