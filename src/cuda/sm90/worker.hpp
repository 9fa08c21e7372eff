#pragma once

// A worker of the kernels: one block of its rank, with its part of shared memory. Stages are functions over it, called
// by all threads of the block, one file each.

#include "cuda/simt/block.hpp"
#include "cuda/simt/warp.hpp"
#include "cuda/sm90/arguments.hpp"

namespace megamoe::sm90 {

/// What dispatch keeps in shared memory.
struct SharedPlan {
  uint32_t* verdict = nullptr;        // [1], of barriers
  uint32_t* expert_next = nullptr;    // [num_all_experts]: count's tallies, then scatter's next places
  uint32_t* recv_count = nullptr;     // [num_local_max, num_ranks]: pull's copy of the field
  uint32_t* rows_before = nullptr;    // [num_local_max + 1]: of the pool's map, see pool_rows.hpp
  uint32_t* blocks_before = nullptr;  // [num_local_max + 1]

  MM_HOST_DEVICE static constexpr uint32_t num_words(const flow::Dims& dims) {
    return 4U + dims.num_all_experts() + dims.num_local_max() * dims.num_ranks + 2U * (dims.num_local_max() + 1U);
  }
  MM_HOST_DEVICE static constexpr uint32_t num_bytes(const flow::Dims& dims) {
    return num_words(dims) * static_cast<uint32_t>(sizeof(uint32_t));
  }
  MM_DEVICE static SharedPlan carve(uint8_t* shared, const flow::Dims& dims) {
    auto* words = reinterpret_cast<uint32_t*>(shared);
    uint32_t* expert_next = words + 4;
    uint32_t* recv_count = expert_next + dims.num_all_experts();
    uint32_t* rows_before = recv_count + dims.num_local_max() * dims.num_ranks;
    return {words, expert_next, recv_count, rows_before, rows_before + dims.num_local_max() + 1U};
  }
};

struct Worker {
  const Arguments& arguments;
  SharedPlan shared;
  uint32_t worker_idx = 0;
  uint32_t num_workers = 1;  ///< of this rank

  MM_DEVICE flow::Range token_share() const { return flow::share(arguments.num_tokens, worker_idx, num_workers); }
  /// This warp among all of the rank; neighbours are in different blocks, so that few rows still reach many SMs.
  MM_DEVICE uint32_t rank_warp_idx() const { return simt::warp_idx() * num_workers + worker_idx; }
  MM_DEVICE uint32_t num_rank_warps() const { return num_workers * (simt::num_threads() / simt::kWarpLanes); }
  MM_DEVICE uint32_t rank_thread_idx() const { return worker_idx * simt::num_threads() + simt::thread_idx(); }
  MM_DEVICE uint32_t num_rank_threads() const { return num_workers * simt::num_threads(); }

  MM_DEVICE sync::Waiter waiter(uint32_t stage) const {
    return {arguments.peers(), arguments.rank, arguments.dims.num_ranks, worker_idx,
            num_workers,       stage,          arguments.timeout_ns};
  }
};

}  // namespace megamoe::sm90
