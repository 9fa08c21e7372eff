// Every function of the layer once, in every scope and order that it has: ptxas must know them all. Never run.

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/matrix_load.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/prefetch.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/grid.hpp"
#include "cuda/simt/index.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"

using namespace megamoe;
using ptx::Order;
using ptx::Scope;

template <Order kOrder, Scope kScope, class Word>
__device__ Word atomics(Word* word) {
  Word seen = ptx::atom_add<kOrder, kScope>(word, Word{1});
  seen += ptx::atom_min<kOrder, kScope>(word, seen);
  seen += ptx::atom_max<kOrder, kScope>(word, seen);
  seen += ptx::atom_or<kOrder, kScope>(word, seen);
  seen += ptx::atom_and<kOrder, kScope>(word, seen);
  seen += ptx::atom_exch<kOrder, kScope>(word, seen);
  seen += ptx::atom_cas<kOrder, kScope>(word, seen, Word{3});
  if constexpr (kOrder == Order::relaxed || kOrder == Order::release) {
    ptx::red_add<kOrder, kScope>(word, seen);
    ptx::red_or<kOrder, kScope>(word, seen);
  }
  return seen;
}

template <Scope kScope, class Word>
__device__ void flags(Word* word) {
  Word seen = ptx::ld_relaxed<kScope>(word) + ptx::ld_acquire<kScope>(word);
  seen += atomics<Order::relaxed, kScope>(word);
  seen += atomics<Order::acquire, kScope>(word);
  seen += atomics<Order::release, kScope>(word);
  seen += atomics<Order::acq_rel, kScope>(word);
  ptx::fence_acq_rel<kScope>();
  ptx::st_relaxed<kScope>(word, seen);
  ptx::st_release<kScope>(word, seen);
}

template <Scope kScope>
__device__ void all_flags(uint32_t* words, uint64_t* wide_words, float* sums) {
  flags<kScope>(words);
  flags<kScope>(wide_words);
  ptx::red_add<Order::relaxed, kScope>(sums, 1.0F);
  ptx::red_max<Order::release, kScope>(words, 1U);
}

extern "C" __global__ void scopes(uint32_t* words, uint64_t* wide_words, float* sums) {
  all_flags<Scope::cta>(words, wide_words, sums);
  all_flags<Scope::cluster>(words, wide_words, sums);
  all_flags<Scope::gpu>(words, wide_words, sums);
  all_flags<Scope::sys>(words, wide_words, sums);
}

template <uint32_t kNumDims>
__device__ void boxes(uint8_t* tile, const ptx::TensorMap* map, const int32_t (&at)[kNumDims], uint64_t* mbarrier) {
  ptx::tensor_load(tile, map, at, mbarrier);
  if constexpr (kNumDims >= 2 && kNumDims <= 4) ptx::tensor_load(tile, map, at, mbarrier, ptx::L2Hint::evict_normal);
  ptx::tensor_load_multicast(tile, map, at, mbarrier, 3);
  ptx::tensor_store(map, at, tile);
}

extern "C" __global__ void copies(const __grid_constant__ ptx::TensorMap map, uint8_t* global) {
  uint8_t* tile = simt::dynamic_shared();
  auto* mbarrier = reinterpret_cast<uint64_t*>(tile + 65536);
  ptx::prefetch_tensor_map(&map);
  ptx::prefetch_l2(global);
  ptx::bulk_prefetch_l2(global, 256);
  ptx::mbarrier_init(mbarrier, 4);
  ptx::mbarrier_expect_tx(mbarrier, 16);
  ptx::mbarrier_arrive(mbarrier, 2);
  ptx::mbarrier_arrive_expect_tx(mbarrier, 256);
  ptx::mbarrier_arrive_expect_tx_cluster(simt::map_to_block(mbarrier, 1), 256);
  ptx::bulk_load(tile, global, 256, mbarrier);
  ptx::bulk_load(tile, global, 256, mbarrier, ptx::L2Hint::evict_last);
  ptx::bulk_load_multicast(tile, global, 256, mbarrier, 3);
  ptx::bulk_load_multicast(tile, global, 256, mbarrier, 3, ptx::L2Hint::evict_first);
  ptx::bulk_push(simt::map_to_block(tile, 1), tile, 256, simt::map_to_block(mbarrier, 1));
  ptx::bulk_store(global, tile, 256);
  ptx::bulk_reduce_add_f32(reinterpret_cast<float*>(global), reinterpret_cast<float*>(tile), 256);
  ptx::bulk_reduce_add_bf16(reinterpret_cast<uint16_t*>(global), reinterpret_cast<uint16_t*>(tile), 256);
  boxes(tile, &map, {0}, mbarrier);
  boxes(tile, &map, {0, 1}, mbarrier);
  boxes(tile, &map, {0, 1, 2}, mbarrier);
  boxes(tile, &map, {0, 1, 2, 3}, mbarrier);
  boxes(tile, &map, {0, 1, 2, 3, 4}, mbarrier);
  ptx::bulk_commit_group();
  ptx::bulk_wait_group_read<1>();
  ptx::bulk_wait_group<0>();
  ptx::fence_proxy_async();
  ptx::fence_proxy_async_global();
  while (!ptx::mbarrier_test_wait(mbarrier, 1)) {
  }
  ptx::mbarrier_inval(mbarrier);
}

extern "C" __global__ void warps(uint32_t* words, simt::Vec4* wide_words, uint64_t* times) {
  uint32_t value = simt::load_streaming(words) + simt::cluster_idx() + simt::num_cluster_blocks() + simt::sm_idx();
  value += simt::shfl(simt::kAllLanes, value, 3, 8) + simt::shfl_up(simt::kAllLanes, value, 3);
  value += simt::reduce_min(simt::kAllLanes, value) + simt::reduce_max(simt::kAllLanes, value);
  value += simt::reduce_and(simt::kAllLanes, value) + simt::reduce_or(simt::kAllLanes, value);
  value += simt::reduce_xor(simt::kAllLanes, value) + simt::warp_idx_uniform();
  const int32_t low = simt::reduce_min(simt::kAllLanes, static_cast<int32_t>(value));
  const int32_t high = simt::reduce_max(simt::kAllLanes, low + simt::reduce_add(simt::kAllLanes, low));
  value += simt::any(simt::kAllLanes, high > 3) || simt::all(simt::kAllLanes, low > 4) ? 1 : 0;
  simt::syncwarp();
  simt::cluster_arrive_relaxed();
  simt::cluster_wait();
  simt::nanosleep(100);
  const simt::Vec4 wide = simt::load_streaming(wide_words);
  auto* counts = reinterpret_cast<uint32_t*>(simt::dynamic_shared());
  value += wide.x + ptx::shared_atom_max(counts, value) + simt::shared_address(counts);
  uint32_t parts[4];
  ptx::load_matrices(simt::dynamic_shared() + simt::lane_idx() * 16, parts);
  value += parts[0] + parts[1] + parts[2] + parts[3];
  simt::store(words, value);
  simt::store(times, simt::clock_cycles() + simt::global_timer_ns() + simt::load_streaming(times + 1));
}
