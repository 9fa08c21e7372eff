// Barriers that nobody completes, or that are used against their rules.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "planted_faults.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Scope;

uint64_t* first_mbarrier() { return reinterpret_cast<uint64_t*>(simt::dynamic_shared()); }

void make_mbarrier(uint64_t* mbarrier, uint32_t num_arrivals) {
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(mbarrier, num_arrivals);
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
}

void too_few_arrivals(const Buffers&, uint32_t, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  make_mbarrier(mbarrier, 2);
  if (simt::thread_idx() == 0) ptx::mbarrier_arrive(mbarrier);
  if (simt::thread_idx() == 1 && version == Version::corrected) ptx::mbarrier_arrive(mbarrier);
  ptx::mbarrier_wait(mbarrier, 0);
}

void too_many_arrivals(const Buffers&, uint32_t, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  make_mbarrier(mbarrier, 1);
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_expect_tx(mbarrier, 16);
    ptx::mbarrier_arrive(mbarrier, version == Version::planted ? 2 : 1);
  }
}

void more_bytes_expected_than_copied(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  make_mbarrier(mbarrier, 1);
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, version == Version::planted ? 512 : 256);
    ptx::bulk_load(simt::dynamic_shared() + 1024, buffers.data[rank], 256, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void use_before_init(const Buffers&, uint32_t, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  if (version == Version::corrected) make_mbarrier(mbarrier, 1);
  if (simt::thread_idx() == 0) ptx::mbarrier_arrive(mbarrier);
}

void init_twice(const Buffers&, uint32_t, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  make_mbarrier(mbarrier, 1);
  if (simt::thread_idx() != 0) return;
  if (version == Version::corrected) ptx::mbarrier_inval(mbarrier);
  ptx::mbarrier_init(mbarrier, 2);
}

void mbarrier_read_as_data(const Buffers&, uint32_t, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  make_mbarrier(mbarrier, 1);
  if (simt::thread_idx() != 0) return;
  if (version == Version::planted) (void)simt::load(mbarrier);
  ptx::mbarrier_inval(mbarrier);
}

/// The producer arms the next phase without knowing that the consumers have seen this one.
void producer_runs_ahead(const Buffers&, uint32_t, Version version) {
  uint64_t* full = first_mbarrier();
  uint64_t* empty = full + 1;
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(empty, 32);
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  constexpr uint32_t kNumRounds = 8;
  if (simt::warp_idx() == 0) {
    for (uint32_t round = 0; round < kNumRounds && simt::lane_idx() == 0; ++round) {
      if (version == Version::corrected) ptx::mbarrier_wait(empty, (round & 1U) ^ 1U);
      ptx::mbarrier_arrive(full);
    }
  } else {
    for (uint32_t round = 0; round < kNumRounds; ++round) {
      // Bounded, so that the planted version ends although it waits for phases that have gone by.
      for (uint32_t i = 0; i < 50 && !ptx::mbarrier_try_wait(full, round & 1U); ++i) {
      }
      if (version == Version::corrected) ptx::mbarrier_arrive(empty);
    }
  }
}

void named_barrier_waits_for_too_many(const Buffers&, uint32_t, Version version) {
  if (simt::warp_idx() < 2) simt::barrier_sync(1, version == Version::planted ? 96 : 64);
}

void named_barrier_counts_disagree(const Buffers&, uint32_t, Version version) {
  const uint32_t count = version == Version::planted && simt::warp_idx() == 1 ? 96 : 64;
  if (simt::warp_idx() < 2) simt::barrier_sync(1, count);
}

void one_warp_leaves_sync_threads_out(const Buffers&, uint32_t, Version version) {
  if (version == Version::planted && simt::warp_idx() == 1) return;
  simt::sync_threads();
}

void half_a_warp_at_another_barrier(const Buffers&, uint32_t, Version version) {
  const uint32_t barrier = version == Version::planted && simt::lane_idx() >= 16 ? 2 : 1;
  simt::barrier_sync(barrier, 32);
}

void flag_that_nobody_sets(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* flag = buffers.flags[rank];
  if (simt::thread_idx() == 0 && version == Version::corrected) ptx::st_release<Scope::gpu>(flag, 1);
  if (simt::thread_idx() == 32) {
    while (ptx::ld_acquire<Scope::gpu>(flag) == 0) {
    }
  }
}

void flag_that_nobody_sets_slept_for(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* flag = buffers.flags[rank];
  if (simt::thread_idx() == 0 && version == Version::corrected) ptx::st_release<Scope::gpu>(flag, 1);
  if (simt::thread_idx() == 32) {
    while (ptx::ld_acquire<Scope::gpu>(flag) == 0) simt::nanosleep(100);
  }
}

void cluster_wait_without_arrive(const Buffers&, uint32_t, Version version) {
  if (version == Version::corrected) simt::cluster_arrive();
  simt::cluster_wait();
}

void one_block_skips_the_cluster_barrier(const Buffers& buffers, uint32_t rank, Version version) {
  if (version == Version::planted && simt::cluster_block_idx() == 1) {
    // Neither arrives nor exits.
    while (ptx::ld_relaxed<Scope::gpu>(buffers.flags[rank]) == 0) {
    }
  }
  simt::cluster_arrive();
  simt::cluster_wait();
}

void registers_that_nobody_gives_back(const Buffers&, uint32_t, Version version) {
  if (simt::warpgroup_idx() == 0) {
    if (version == Version::corrected) simt::shrink_registers<40>();
  } else {
    simt::grow_registers<208>();
  }
}

void registers_grow_downwards(const Buffers&, uint32_t, Version version) {
  if (version == Version::planted) {
    simt::grow_registers<40>();
  } else {
    simt::shrink_registers<40>();
  }
}

}  // namespace

std::vector<Fault> barrier_faults() {
  const Launch two_warps{.num_threads = 64, .shared_bytes = 4096};
  const Launch three_warps{.num_threads = 96, .shared_bytes = 4096};
  const Launch cluster{.num_blocks = 2, .num_threads = 32, .num_cluster_blocks = 2};
  const Launch two_warpgroups{.num_threads = 256, .registers_per_thread = 128};
  using Kind = FindingKind;
  return {
      {"too_few_arrivals", Kind::deadlock, "mbarrier_wait(mbarrier, 0)", Shows::always, too_few_arrivals, two_warps},
      {"too_many_arrivals", Kind::arrival_count, "mbarrier_arrive(mbarrier, version", Shows::always, too_many_arrivals,
       two_warps},
      {"more_bytes_expected_than_copied", Kind::deadlock, "mbarrier_wait(mbarrier, 0)", Shows::always,
       more_bytes_expected_than_copied, two_warps},
      {"use_before_init", Kind::barrier_misuse, "mbarrier_arrive(mbarrier)", Shows::always, use_before_init, two_warps},
      {"init_twice", Kind::barrier_misuse, "mbarrier_init(mbarrier, 2)", Shows::always, init_twice, two_warps},
      {"mbarrier_read_as_data", Kind::barrier_misuse, "simt::load(mbarrier)", Shows::always, mbarrier_read_as_data,
       two_warps},
      {"producer_runs_ahead", Kind::missed_phase, "mbarrier_arrive(full)", Shows::sometimes, producer_runs_ahead,
       two_warps},
      {"named_barrier_waits_for_too_many", Kind::deadlock, "barrier_sync(1, version", Shows::always,
       named_barrier_waits_for_too_many, three_warps},
      {"named_barrier_counts_disagree", Kind::barrier_misuse, "barrier_sync(1, count)", Shows::always,
       named_barrier_counts_disagree, three_warps},
      {"one_warp_leaves_sync_threads_out", Kind::deadlock, "sync_threads()", Shows::always,
       one_warp_leaves_sync_threads_out, two_warps},
      {"half_a_warp_at_another_barrier", Kind::divergent_collective, "barrier_sync(barrier, 32)", Shows::always,
       half_a_warp_at_another_barrier, two_warps},
      {"flag_that_nobody_sets", Kind::deadlock, "ld_acquire<Scope::gpu>(flag)", Shows::always, flag_that_nobody_sets,
       two_warps},
      {"flag_that_nobody_sets_slept_for", Kind::deadlock, "ld_acquire<Scope::gpu>(flag)", Shows::always,
       flag_that_nobody_sets_slept_for, two_warps},
      {"cluster_wait_without_arrive", Kind::barrier_misuse, "cluster_wait()", Shows::always,
       cluster_wait_without_arrive, cluster},
      {"one_block_skips_the_cluster_barrier", Kind::deadlock, "", Shows::always, one_block_skips_the_cluster_barrier,
       cluster},
      {"registers_that_nobody_gives_back", Kind::deadlock, "grow_registers<208>()", Shows::always,
       registers_that_nobody_gives_back, two_warpgroups},
      {"registers_grow_downwards", Kind::registers, "grow_registers<40>()", Shows::always, registers_grow_downwards,
       two_warpgroups},
  };
}

}  // namespace megamoe::emu::testing
