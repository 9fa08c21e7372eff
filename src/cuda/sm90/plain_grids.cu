// dispatch and combine as grids: one rank's blocks, or those of several virtual ranks.

#include "cuda/sm90/grids.hpp"
#include "cuda/sm90/plain_kernels.hpp"

namespace megamoe::sm90 {
namespace {

template <uint32_t kNumRanks>
__global__ void __launch_bounds__(kMaxPlainThreads, 1)
    dispatch_grid(const __grid_constant__ RankArguments<kNumRanks> arguments, uint32_t blocks_per_rank) {
  const VirtualRank mine = virtual_rank(blocks_per_rank);
  dispatch_kernel(arguments.ranks[mine.idx], mine.worker_idx, blocks_per_rank);
}

template <uint32_t kNumRanks>
__global__ void __launch_bounds__(kMaxPlainThreads, 1)
    combine_grid(const __grid_constant__ RankArguments<kNumRanks> arguments, uint32_t blocks_per_rank) {
  const VirtualRank mine = virtual_rank(blocks_per_rank);
  combine_kernel(arguments.ranks[mine.idx], mine.worker_idx, blocks_per_rank);
}

template <uint32_t kNumRanks>
__global__ void __launch_bounds__(kMaxPlainThreads, 1)
    meet_grid(const __grid_constant__ RankArguments<kNumRanks> arguments, uint32_t blocks_per_rank) {
  const VirtualRank mine = virtual_rank(blocks_per_rank);
  meet_kernel(arguments.ranks[mine.idx], mine.worker_idx, blocks_per_rank);
}

}  // namespace

template <uint32_t kNumRanks>
const void* dispatch_grid_function() {
  return reinterpret_cast<const void*>(&dispatch_grid<kNumRanks>);
}
template <uint32_t kNumRanks>
const void* combine_grid_function() {
  return reinterpret_cast<const void*>(&combine_grid<kNumRanks>);
}
template <uint32_t kNumRanks>
const void* meet_grid_function() {
  return reinterpret_cast<const void*>(&meet_grid<kNumRanks>);
}

template const void* dispatch_grid_function<1>();
template const void* dispatch_grid_function<kMaxVirtualRanks>();
template const void* combine_grid_function<1>();
template const void* combine_grid_function<kMaxVirtualRanks>();
template const void* meet_grid_function<1>();
template const void* meet_grid_function<kMaxVirtualRanks>();

}  // namespace megamoe::sm90
