// Small kernels that together use every kind of layer function. by_hand.cu has the same kernels without the layer.

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/grid.hpp"
#include "cuda/simt/index.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"

using namespace megamoe;
using ptx::Order;
using ptx::Scope;

extern "C" __global__ void copy_words(const simt::Vec4* source, simt::Vec4* destination, uint32_t num_words) {
  for (uint32_t i = simt::block_idx() * simt::num_threads() + simt::thread_idx(); i < num_words;
       i += simt::num_blocks() * simt::num_threads()) {
    simt::store(destination + i, simt::load(source + i));
  }
}

extern "C" __global__ void sum_over_warps(const uint32_t* source, uint32_t* total) {
  uint32_t value = simt::load(source + simt::thread_idx());
  value += simt::shfl_xor(simt::kAllLanes, value, 16);
  value += simt::shfl_down(simt::kAllLanes, value, 8);
  const uint32_t votes = simt::ballot(simt::kAllLanes, value > 7);
  const uint32_t sum = simt::reduce_add(simt::kAllLanes, value + votes);
  if (simt::elect_one()) ptx::red_add<Order::release, Scope::gpu>(total, sum);
}

extern "C" __global__ void hand_over(uint32_t* data, uint64_t* flag) {
  if (simt::block_idx() == 0) {
    simt::store(data + simt::thread_idx(), simt::thread_idx());
    simt::sync_threads();
    if (simt::thread_idx() == 0) ptx::st_release<Scope::sys>(flag, 1);
  } else {
    while (ptx::ld_acquire<Scope::sys>(flag) == 0) {
    }
    const uint32_t before = ptx::atom_add<Order::acq_rel, Scope::gpu>(data + 64, 1U);
    ptx::fence_acq_rel<Scope::gpu>();
    ptx::st_relaxed<Scope::gpu>(data + 65, before);
  }
}

extern "C" __global__ void __cluster_dims__(2) pass_through_shared(const uint8_t* source, uint8_t* destination) {
  simt::wait_for_earlier_grid();
  uint8_t* shared = simt::dynamic_shared();
  auto* full = reinterpret_cast<uint64_t*>(shared + 2048);
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
  }
  simt::cluster_arrive();
  simt::cluster_wait();
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_arrive_expect_tx(full, 1024);
    ptx::bulk_load(shared, source + simt::block_idx() * 1024, 1024, full, ptx::L2Hint::evict_first);
  }
  ptx::mbarrier_wait(full, 0);
  simt::barrier_sync(1, 128);
  auto* words = reinterpret_cast<uint32_t*>(shared);
  simt::store(words + simt::thread_idx(), simt::load(words + simt::thread_idx()) + 1);
  ptx::fence_proxy_async_shared();
  simt::sync_threads();
  if (simt::thread_idx() == 0) {
    ptx::bulk_store(destination + simt::block_idx() * 1024, shared, 1024);
    ptx::bulk_commit_group();
    ptx::bulk_wait_group<0>();
    ptx::mbarrier_arrive_cluster(simt::map_to_block(full, simt::cluster_block_idx() ^ 1U));
  }
  ptx::mbarrier_wait<Scope::cluster>(full, 1);
  simt::launch_dependents();
}

extern "C" __global__ void __launch_bounds__(256, 1) move_registers(uint32_t* counts) {
  if (simt::warpgroup_idx() == 0) {
    simt::shrink_registers<40>();
    simt::barrier_arrive(2, 256);
  } else {
    simt::grow_registers<208>();
    simt::barrier_sync(2, 256);
    (void)ptx::shared_atom_add(reinterpret_cast<uint32_t*>(simt::dynamic_shared()), 1U);
    const uint32_t same = simt::match_any(simt::kAllLanes, simt::load(counts));
    simt::store(counts + simt::lane_idx(), same);
  }
}

extern "C" __global__ void load_box(const __grid_constant__ ptx::TensorMap map, uint32_t* sums) {
  uint8_t* shared = simt::dynamic_shared();
  auto* full = reinterpret_cast<uint64_t*>(shared + 16384);
  if (simt::thread_idx() == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(full, 16384);
    ptx::tensor_load(shared, &map, {0, static_cast<int32_t>(simt::block_idx())}, full, ptx::L2Hint::evict_last);
    ptx::tensor_load(shared + 8192, &map, {64, static_cast<int32_t>(simt::block_idx())}, full);
  }
  simt::sync_threads();
  ptx::mbarrier_wait(full, 0);
  simt::store(sums + simt::thread_idx(), simt::load(reinterpret_cast<uint32_t*>(shared) + simt::thread_idx()));
}
