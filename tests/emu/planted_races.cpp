// Accesses that nothing orders: what only the race detector finds in every interleaving.

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/grid.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "planted_faults.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Order;
using ptx::Scope;

uint32_t* shared_words() { return reinterpret_cast<uint32_t*>(simt::dynamic_shared()); }

void two_warps_store_one_word(const Buffers& buffers, uint32_t rank, Version version) {
  const uint32_t idx = version == Version::planted ? 0 : simt::warp_idx();
  if (simt::lane_idx() == 0) simt::store(buffers.data[rank] + idx, simt::warp_idx());
}

void two_lanes_store_one_byte(const Buffers& buffers, uint32_t rank, Version version) {
  auto* bytes = reinterpret_cast<uint8_t*>(buffers.data[rank]);
  const uint32_t idx = version == Version::planted ? simt::lane_idx() / 2 : simt::lane_idx();
  simt::store(bytes + idx, static_cast<uint8_t>(1));
}

void shared_read_without_sync_threads(const Buffers& buffers, uint32_t rank, Version version) {
  if (simt::warp_idx() == 0) simt::store(shared_words() + simt::lane_idx(), 1U);
  if (version == Version::corrected) {
    simt::sync_threads();
  } else if (simt::thread_idx() == 0) {
    ptx::st_relaxed<Scope::gpu>(buffers.flags[rank], 1);
  }
  if (simt::warp_idx() != 1) return;
  // The planted version waits, but for a flag that orders nothing.
  while (version == Version::planted && ptx::ld_relaxed<Scope::gpu>(buffers.flags[rank]) == 0) {
  }
  (void)simt::load(shared_words());
}

void neighbour_lane_read_without_syncwarp(const Buffers&, uint32_t, Version version) {
  simt::store(shared_words() + simt::lane_idx(), simt::lane_idx());
  // A vote makes the lanes meet, and orders no memory.
  (void)simt::any(simt::kAllLanes, true);
  if (version == Version::corrected) simt::syncwarp();
  (void)simt::load(shared_words() + (simt::lane_idx() ^ 1U));
}

void buffer_reused_without_second_barrier(const Buffers&, uint32_t, Version version) {
  for (uint32_t round = 0; round < 2; ++round) {
    simt::store(shared_words() + simt::thread_idx(), round);
    simt::sync_threads();
    (void)simt::load(shared_words() + (simt::thread_idx() ^ 32U));
    if (version == Version::corrected) simt::sync_threads();
  }
}

/// Block 0 hands a word to block 1 through a flag.
template <class Publish, class Consume>
void hand_over(uint32_t* word, uint32_t* flag, bool is_writer, bool is_reader, Publish publish, Consume consume) {
  if (simt::thread_idx() != 0) return;
  if (is_writer) {
    simt::store(word, 7U);
    publish(flag);
  } else if (is_reader) {
    while (consume(flag) == 0) {
    }
    (void)simt::load(word);
  }
}

void flag_without_release(const Buffers& buffers, uint32_t rank, Version version) {
  hand_over(
      buffers.data[rank], buffers.flags[rank], simt::block_idx() == 0, simt::block_idx() == 1,
      [&](uint32_t* flag) {
        if (version == Version::corrected) ptx::fence_acq_rel<Scope::gpu>();
        ptx::st_relaxed<Scope::gpu>(flag, 1);
      },
      [](uint32_t* flag) { return ptx::ld_acquire<Scope::gpu>(flag); });
}

void flag_without_acquire(const Buffers& buffers, uint32_t rank, Version version) {
  hand_over(
      buffers.data[rank], buffers.flags[rank], simt::block_idx() == 0, simt::block_idx() == 1,
      [](uint32_t* flag) { ptx::red_add<Order::release, Scope::gpu>(flag, 1U); },
      [&](uint32_t* flag) {
        const uint32_t seen = ptx::ld_relaxed<Scope::gpu>(flag);
        if (version == Version::corrected) ptx::fence_acq_rel<Scope::gpu>();
        return seen;
      });
}

void peer_flag_of_gpu_scope(const Buffers& buffers, uint32_t rank, Version version) {
  hand_over(
      buffers.data[1], buffers.flags[1], rank == 0, rank == 1,
      [&](uint32_t* flag) {
        if (version == Version::planted) {
          ptx::st_release<Scope::gpu>(flag, 1);
        } else {
          ptx::st_release<Scope::sys>(flag, 1);
        }
      },
      [](uint32_t* flag) { return ptx::ld_acquire<Scope::sys>(flag); });
}

/// All warps write; one thread publishes for them, as a grid barrier does.
void publish_without_barrier_before(const Buffers& buffers, uint32_t rank, Version version) {
  if (simt::block_idx() == 0) {
    simt::store(buffers.data[rank] + simt::thread_idx(), 1U);
    if (version == Version::corrected) simt::sync_threads();
    if (simt::thread_idx() == 0) ptx::red_add<Order::release, Scope::gpu>(buffers.flags[rank], 1U);
  } else {
    if (simt::thread_idx() == 0) {
      while (ptx::ld_acquire<Scope::gpu>(buffers.flags[rank]) == 0) {
      }
    }
    simt::sync_threads();
    (void)simt::load(buffers.data[rank] + (simt::thread_idx() ^ 33U));
  }
}

void plain_store_to_an_atomic(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* counter = buffers.flags[rank];
  if (simt::thread_idx() == 0 && version == Version::planted) simt::store(counter, 0U);
  if (simt::thread_idx() == 32) ptx::red_add<Order::relaxed, Scope::gpu>(counter, 1U);
}

void mbarrier_used_before_anything_orders_it(const Buffers& buffers, uint32_t rank, Version version) {
  auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
  uint32_t* flag = buffers.flags[rank];
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(mbarrier, 1);
    ptx::st_relaxed<Scope::gpu>(flag, 1);
  }
  if (version == Version::corrected) simt::sync_threads();
  if (simt::thread_idx() == 32) {
    while (ptx::ld_relaxed<Scope::gpu>(flag) == 0) {
    }
    ptx::mbarrier_arrive(mbarrier);
  }
}

void cluster_barrier_that_orders_nothing(const Buffers&, uint32_t, Version version) {
  if (simt::thread_idx() == 0) simt::store(shared_words(), 1U);
  if (version == Version::planted) {
    simt::cluster_arrive_relaxed();
  } else {
    simt::cluster_arrive();
  }
  simt::cluster_wait();
  if (simt::thread_idx() == 0) (void)simt::load(simt::map_to_block(shared_words(), simt::cluster_block_idx() ^ 1U));
  simt::cluster_arrive();
  simt::cluster_wait();
}

/// Global memory that ordinary stores wrote and a copy reads: ordered by the flag, but in the other proxy.
void bulk_load_of_fresh_rows(const Buffers& buffers, uint32_t rank, Version version) {
  auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(mbarrier, 1);
    ptx::fence_mbarrier_init();
  }
  simt::store(buffers.data[rank] + simt::thread_idx(), 5U);
  if (version == Version::corrected) ptx::fence_proxy_async();
  simt::sync_threads();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, 256);
    ptx::bulk_load(simt::dynamic_shared() + 1024, buffers.data[rank], 256, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

/// Consumers hand a stage back before they have read it.
void stage_overwritten_before_it_is_free(const Buffers& buffers, uint32_t rank, Version version) {
  auto* full = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
  uint64_t* empty = full + 1;
  uint8_t* stage = simt::dynamic_shared() + 1024;
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(empty, 32);
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  for (uint32_t round = 0; round < 2; ++round) {
    if (simt::thread_idx() == 0) {
      ptx::mbarrier_wait(empty, (round & 1U) ^ 1U);
      ptx::mbarrier_arrive_expect_tx(full, 128);
      ptx::bulk_load(stage, buffers.data[rank], 128, full);
    }
    if (simt::warp_idx() == 1) {
      ptx::mbarrier_wait(full, round & 1U);
      if (version == Version::planted) ptx::mbarrier_arrive(empty);
      (void)simt::load(reinterpret_cast<uint32_t*>(stage) + simt::lane_idx());
      if (version == Version::corrected) ptx::mbarrier_arrive(empty);
    }
  }
}

}  // namespace

std::vector<Fault> race_faults() {
  const Launch one_warp{.num_threads = 32, .shared_bytes = 4096};
  const Launch two_warps{.num_threads = 64, .shared_bytes = 4096};
  const Launch two_blocks{.num_blocks = 2, .num_threads = 64, .shared_bytes = 4096};
  const Launch cluster{.num_blocks = 2, .num_threads = 32, .num_cluster_blocks = 2, .shared_bytes = 4096};
  constexpr FindingKind kWrites = FindingKind::write_write_race;
  constexpr FindingKind kReadWrite = FindingKind::read_write_race;
  constexpr Shows kAlways = Shows::always;
  constexpr Races kFind = Races::find;
  return {
      {"two_warps_store_one_word", kWrites, "buffers.data[rank] + idx, simt::warp_idx()", kAlways,
       two_warps_store_one_word, two_warps, 1, kFind},
      {"two_lanes_store_one_byte", kWrites, "bytes + idx", kAlways, two_lanes_store_one_byte, one_warp, 1, kFind},
      {"shared_read_without_sync_threads", kReadWrite, "simt::load(shared_words())", kAlways,
       shared_read_without_sync_threads, two_warps, 1, kFind},
      {"neighbour_lane_read_without_syncwarp", kReadWrite, "shared_words() + ", kAlways,
       neighbour_lane_read_without_syncwarp, one_warp, 1, kFind},
      {"buffer_reused_without_second_barrier", kReadWrite, "shared_words() + ", kAlways,
       buffer_reused_without_second_barrier, two_warps, 1, kFind},
      {"flag_without_release", kReadWrite, "simt::load(word)", kAlways, flag_without_release, two_blocks, 1, kFind},
      {"flag_without_acquire", kReadWrite, "simt::load(word)", kAlways, flag_without_acquire, two_blocks, 1, kFind},
      {"peer_flag_of_gpu_scope", kReadWrite, "Scope::", kAlways, peer_flag_of_gpu_scope, one_warp, 2, kFind},
      {"publish_without_barrier_before", kReadWrite, "buffers.data[rank] + ", kAlways, publish_without_barrier_before,
       two_blocks, 1, kFind},
      {"plain_store_to_an_atomic", kWrites, "counter, ", kAlways, plain_store_to_an_atomic, two_warps, 1, kFind},
      {"mbarrier_used_before_anything_orders_it", kReadWrite, "mbarrier_arrive(mbarrier)", kAlways,
       mbarrier_used_before_anything_orders_it, two_warps, 1, kFind},
      {"cluster_barrier_that_orders_nothing", kReadWrite, "map_to_block(shared_words()", kAlways,
       cluster_barrier_that_orders_nothing, cluster, 1, kFind},
      {"bulk_load_of_fresh_rows", FindingKind::missing_proxy_fence, "ptx::bulk_load(", kAlways, bulk_load_of_fresh_rows,
       two_warps, 1, kFind},
      {"stage_overwritten_before_it_is_free", kReadWrite, "", kAlways, stage_overwritten_before_it_is_free, two_warps,
       1, kFind},
  };
}

}  // namespace megamoe::emu::testing
