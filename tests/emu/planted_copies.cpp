// Asynchronous copies: arguments that break the rules, missing waits, missing proxy fences.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "planted_faults.hpp"

namespace megamoe::emu::testing {

namespace {

constexpr uint32_t kBytes = 256;

uint64_t* first_mbarrier() { return reinterpret_cast<uint64_t*>(simt::dynamic_shared()); }
uint8_t* tile() { return simt::dynamic_shared() + 1024; }

uint64_t* make_mbarrier(uint32_t num_arrivals = 1) {
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(first_mbarrier(), num_arrivals);
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  return first_mbarrier();
}

void bulk_load_of_odd_address(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank] + (version == Version::planted ? 2 : 4), kBytes, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void bulk_load_of_odd_size(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  const uint32_t num_bytes = version == Version::planted ? 24 : 32;
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, num_bytes);
    ptx::bulk_load(tile(), buffers.data[rank], num_bytes, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void bulk_load_beyond_an_allocation(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  const uint32_t first = kNumWords - (version == Version::planted ? 32 : 64);
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank] + first, kBytes, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void tile_read_without_wait(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank], kBytes, mbarrier);
    if (version == Version::corrected) ptx::mbarrier_wait(mbarrier, 0);
    (void)simt::load(reinterpret_cast<uint32_t*>(tile()));
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

/// try_wait may give up: a single call is no wait.
void tile_read_after_one_try(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank], kBytes, mbarrier);
  }
  (void)ptx::mbarrier_try_wait(mbarrier, 0);
  if (version == Version::corrected) ptx::mbarrier_wait(mbarrier, 0);
  (void)simt::load(reinterpret_cast<uint32_t*>(tile()) + simt::thread_idx());
  ptx::mbarrier_wait(mbarrier, 0);
}

void block_exits_under_a_load(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() != 0) return;
  ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
  ptx::bulk_load(tile(), buffers.data[rank], kBytes, mbarrier);
  if (version == Version::corrected) ptx::mbarrier_wait(mbarrier, 0);
}

void fill_tile(Version fence) {
  simt::store(reinterpret_cast<uint32_t*>(tile()) + simt::thread_idx(), simt::thread_idx());
  if (fence == Version::corrected) ptx::fence_proxy_async_shared();
  simt::sync_threads();
}

void bulk_store_without_proxy_fence(const Buffers& buffers, uint32_t rank, Version version) {
  fill_tile(version);
  if (simt::thread_idx() != 0) return;
  ptx::bulk_store(buffers.data[rank], tile(), kBytes);
  ptx::bulk_commit_group();
  ptx::bulk_wait_group<0>();
}

void fresh_mbarrier_without_fence(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = first_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(mbarrier, 1);
    if (version == Version::corrected) ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank], kBytes, mbarrier);
    ptx::mbarrier_wait(mbarrier, 0);
  }
}

void source_reused_before_it_is_read(const Buffers& buffers, uint32_t rank, Version version) {
  fill_tile(Version::corrected);
  if (simt::thread_idx() != 0) return;
  ptx::bulk_store(buffers.data[rank], tile(), kBytes);
  ptx::bulk_commit_group();
  if (version == Version::corrected) ptx::bulk_wait_group_read<0>();
  simt::store(reinterpret_cast<uint32_t*>(tile()), 9U);
  ptx::bulk_wait_group<0>();
}

/// wait_group_read says that the source is free, not that the writes are there.
void result_read_after_wait_group_read(const Buffers& buffers, uint32_t rank, Version version) {
  fill_tile(Version::corrected);
  if (simt::thread_idx() != 0) return;
  ptx::bulk_store(buffers.data[rank], tile(), kBytes);
  ptx::bulk_commit_group();
  ptx::bulk_wait_group_read<0>();
  if (version == Version::corrected) ptx::bulk_wait_group<0>();
  (void)simt::load(buffers.data[rank] + 1);
}

/// Another thread's wait says nothing about this thread's copies.
void wait_by_a_thread_that_issued_nothing(const Buffers& buffers, uint32_t rank, Version version) {
  fill_tile(Version::corrected);
  const uint32_t waiter = version == Version::planted ? 1 : 0;
  if (simt::thread_idx() == 0) {
    ptx::bulk_store(buffers.data[rank], tile(), kBytes);
    ptx::bulk_commit_group();
  }
  if (simt::thread_idx() == waiter) ptx::bulk_wait_group<0>();
  simt::sync_threads();
  (void)simt::load(buffers.data[rank] + simt::thread_idx());
}

void copy_without_commit(const Buffers& buffers, uint32_t rank, Version version) {
  fill_tile(Version::corrected);
  if (simt::thread_idx() != 0) return;
  ptx::bulk_store(buffers.data[rank], tile(), kBytes);
  if (version == Version::corrected) ptx::bulk_commit_group();
  ptx::bulk_wait_group<0>();
  (void)simt::load(buffers.data[rank]);
}

void multicast_beyond_the_cluster(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
  simt::cluster_arrive();
  simt::cluster_wait();
  const uint16_t mask = version == Version::planted ? 0b111 : 0b11;
  if (simt::cluster_block_idx() == 0 && simt::thread_idx() == 0) {
    ptx::bulk_load_multicast(tile(), buffers.data[rank], kBytes, mbarrier, mask);
  }
  ptx::mbarrier_wait<ptx::Scope::cluster>(mbarrier, 0);
  simt::cluster_arrive();
  simt::cluster_wait();
}

void tensor_load_to_odd_place(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::tensor_load(tile() + (version == Version::planted ? 64 : 128), &buffers.map[rank], {0, 0}, mbarrier);
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void tensor_load_with_wrong_rank(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    if (version == Version::planted) {
      ptx::tensor_load(tile(), &buffers.map[rank], {0, 0, 0}, mbarrier);
    } else {
      ptx::tensor_load(tile(), &buffers.map[rank], {0, 0}, mbarrier);
    }
  }
  ptx::mbarrier_wait(mbarrier, 0);
}

void mbarrier_of_another_block(const Buffers& buffers, uint32_t rank, Version version) {
  uint64_t* mbarrier = make_mbarrier();
  simt::cluster_arrive();
  simt::cluster_wait();
  if (simt::thread_idx() == 0) {
    const uint32_t target = simt::cluster_block_idx() ^ (version == Version::planted ? 1U : 0U);
    ptx::mbarrier_arrive_expect_tx(mbarrier, kBytes);
    ptx::bulk_load(tile(), buffers.data[rank], kBytes, simt::map_to_block(mbarrier, target));
  }
  ptx::mbarrier_wait<ptx::Scope::cluster>(mbarrier, 0);
  simt::cluster_arrive();
  simt::cluster_wait();
}

}  // namespace

std::vector<Fault> copy_faults() {
  const Launch block{.num_threads = 64, .shared_bytes = 8192};
  const Launch cluster{.num_blocks = 2, .num_threads = 32, .num_cluster_blocks = 2, .shared_bytes = 8192};
  using Kind = FindingKind;
  constexpr Shows kAlways = Shows::always;
  constexpr Shows kSometimes = Shows::sometimes;
  return {
      {"bulk_load_of_odd_address", Kind::misaligned, "ptx::bulk_load(", kAlways, bulk_load_of_odd_address, block},
      {"bulk_load_of_odd_size", Kind::misaligned, "ptx::bulk_load(", kAlways, bulk_load_of_odd_size, block},
      {"bulk_load_beyond_an_allocation", Kind::out_of_bounds, "ptx::bulk_load(", kAlways,
       bulk_load_beyond_an_allocation, block},
      {"tile_read_without_wait", Kind::copy_in_flight, "simt::load(reinterpret_cast<uint32_t*>(tile()))", kSometimes,
       tile_read_without_wait, block},
      {"tile_read_without_wait", Kind::read_write_race, "tile()", kSometimes, tile_read_without_wait, block, 1,
       Races::find},
      {"tile_read_after_one_try", Kind::copy_in_flight,
       "simt::load(reinterpret_cast<uint32_t*>(tile()) + simt::thread_idx())", kSometimes, tile_read_after_one_try,
       block},
      {"block_exits_under_a_load", Kind::copy_in_flight, "ptx::bulk_load(", kSometimes, block_exits_under_a_load,
       block},
      {"bulk_store_without_proxy_fence", Kind::missing_proxy_fence, "ptx::bulk_store(", kAlways,
       bulk_store_without_proxy_fence, block},
      {"fresh_mbarrier_without_fence", Kind::missing_proxy_fence, "ptx::bulk_load(", kAlways,
       fresh_mbarrier_without_fence, block},
      {"source_reused_before_it_is_read", Kind::copy_in_flight, "9U", kSometimes, source_reused_before_it_is_read,
       block},
      {"result_read_after_wait_group_read", Kind::copy_in_flight, "buffers.data[rank] + 1", kSometimes,
       result_read_after_wait_group_read, block},
      {"wait_by_a_thread_that_issued_nothing", Kind::copy_in_flight, "buffers.data[rank] + simt::thread_idx()",
       kSometimes, wait_by_a_thread_that_issued_nothing, block},
      {"copy_without_commit", Kind::copy_in_flight, "simt::load(buffers.data[rank])", kSometimes, copy_without_commit,
       block},
      {"multicast_beyond_the_cluster", Kind::invalid_copy, "bulk_load_multicast(", kAlways,
       multicast_beyond_the_cluster, cluster},
      {"tensor_load_to_odd_place", Kind::misaligned, "ptx::tensor_load(", kAlways, tensor_load_to_odd_place, block},
      {"tensor_load_with_wrong_rank", Kind::invalid_copy, "{0, 0, 0}", kAlways, tensor_load_with_wrong_rank, block},
      {"mbarrier_of_another_block", Kind::invalid_copy, "ptx::bulk_load(", kAlways, mbarrier_of_another_block, cluster},
  };
}

}  // namespace megamoe::emu::testing
