// What is wrong with a barrier is found: each of these lacks one thing that the real ones have.

#include "cuda/sync/peer_barrier.hpp"
#include "rounds.hpp"

namespace megamoe::sync::testing {
namespace {

using ptx::Order;
using ptx::Scope;

constexpr uint64_t kNumSeeds = 12;

/// The grid barrier again, with a choice of orders and of who meets before it.
enum class BlockMeets : uint8_t { before, not_before };
template <Order kArrive, BlockMeets kBlock>
GoOn grid_barrier_with(const Waiter& waiter, uint32_t* verdict) {
  if (kBlock == BlockMeets::before) simt::sync_threads();
  if (simt::thread_idx() == 0) {
    uint64_t* arrivals = waiter.own().get<flow::Field::worker_arrivals>();
    const uint64_t share =
        waiter.worker_idx == 0 ? (uint64_t{1} << kArrivalBits) - (waiter.num_workers - 1) : uint64_t{1};
    const uint64_t round = num_complete_rounds(ptx::atom_add<kArrive, Scope::gpu>(arrivals, share)) + 1;
    while (num_complete_rounds(ptx::ld_acquire<Scope::gpu>(arrivals)) < round) {
    }
  }
  return share_verdict(true, verdict);
}

/// The peer barrier again, with a choice of how the last block tells the ranks and how blocks look.
template <Scope kScope, Order kTell, Order kLook>
GoOn peer_barrier_with(const Waiter& waiter, uint32_t* verdict) {
  simt::sync_threads();
  if (simt::thread_idx() == 0) {
    const GridArrival arrival =
        grid_arrive(waiter.own().get<flow::Field::worker_arrivals>(), waiter.worker_idx, waiter.num_workers);
    for (uint32_t r = 0; arrival.completes && r < waiter.num_ranks; ++r) {
      uint64_t* epoch = waiter.peers.at(flow::Rank{r}).get<flow::Field::peer_epoch>() + num(waiter.rank);
      if (kTell == Order::release) {
        ptx::st_release<kScope>(epoch, arrival.round);
      } else {
        ptx::st_relaxed<kScope>(epoch, arrival.round);
      }
    }
    const uint64_t* epochs = waiter.own().get<flow::Field::peer_epoch>();
    for (uint32_t r = 0; r < waiter.num_ranks; ++r) {
      while ((kLook == Order::acquire ? ptx::ld_acquire<kScope>(epochs + r) : ptx::ld_relaxed<kScope>(epochs + r)) <
             arrival.round) {
      }
    }
  }
  return share_verdict(true, verdict);
}

/// All rounds over this barrier, looking for races.
template <class Meet>
emu::Report run(uint64_t seed, uint32_t num_ranks, Meet meet) {
  const Shape shape{.num_ranks = num_ranks};
  EmulatedRanks ranks(small_dims(num_ranks), {.seed = seed, .races = emu::Races::find});
  const Words words = allocate_words(ranks, shape);
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    ranks.launch(rank, shape.num_blocks, shape.num_threads, 64,
                 [&, rank] { run_rounds(ranks, words, shape, rank, meet); });
  }
  return ranks.machine().run();
}

bool is_race(const emu::Report& report) {
  return report.found(emu::FindingKind::read_write_race) || report.found(emu::FindingKind::unwritten_read);
}

template <class Meet>
void expect_race_in_every_seed(uint32_t num_ranks, Meet meet) {
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report report = run(seed, num_ranks, meet);
    EXPECT_TRUE(is_race(report)) << "seed " << seed << ": " << report.to_string();
  }
}

/// The copies above are the real thing but for what is planted in them.
TEST(BrokenBarrier, CorrectedTwinsAreClean) {
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report grid = run(seed, 1, grid_barrier_with<Order::acq_rel, BlockMeets::before>);
    EXPECT_TRUE(grid.clean()) << grid.to_string();
    const emu::Report peers = run(seed, 2, peer_barrier_with<Scope::sys, Order::release, Order::acquire>);
    EXPECT_TRUE(peers.clean()) << peers.to_string();
  }
}

TEST(BrokenBarrier, ArrivalThatReleasesNothing) {
  expect_race_in_every_seed(1, grid_barrier_with<Order::acquire, BlockMeets::before>);
}

TEST(BrokenBarrier, ThreadZeroArrivesBeforeItsBlockHasMet) {
  expect_race_in_every_seed(1, grid_barrier_with<Order::acq_rel, BlockMeets::not_before>);
}

TEST(BrokenBarrier, PeersAreToldWithoutRelease) {
  expect_race_in_every_seed(2, peer_barrier_with<Scope::sys, Order::relaxed, Order::acquire>);
}

TEST(BrokenBarrier, PeersAreToldWithinTheGpuOnly) {
  expect_race_in_every_seed(2, peer_barrier_with<Scope::gpu, Order::release, Order::acquire>);
}

TEST(BrokenBarrier, BlocksLookWithoutAcquire) {
  expect_race_in_every_seed(2, peer_barrier_with<Scope::sys, Order::release, Order::relaxed>);
}

TEST(BrokenBarrier, TheArrivalAloneOrdersNoRanks) {
  expect_race_in_every_seed(2, grid_barrier_with<Order::acq_rel, BlockMeets::before>);
}

/// A round that is complete one block too early: whether it shows depends on who is late.
TEST(BrokenBarrier, OneBlockTooFewIsCounted) {
  uint64_t num_found = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report report = run(seed, 1, [](Waiter waiter, uint32_t* verdict) {
      --waiter.num_workers;
      return grid_barrier(waiter, verdict);
    });
    num_found += is_race(report) ? 1 : 0;
  }
  EXPECT_GT(num_found, kNumSeeds / 2);
}

}  // namespace
}  // namespace megamoe::sync::testing
