#pragma once

// The numbers that fix a layer's flow, and those that follow from them. Everything that has a size derives it here.

#include "flow/index.hpp"

namespace megamoe::flow {

/// One activation scale per row and this many columns.
inline constexpr uint32_t kScaleGroup = 128;
/// Pool rows are a multiple of this: the least common multiple of every block_m that any backend may choose
/// (8, 16, 32, 64, 96, 128, 192, 256), so that the choice never changes the size of the pool.
inline constexpr uint32_t kPoolRowAlign = 768;
/// One bit per gemm1 n block in a pool block's mask.
inline constexpr uint32_t kMaxGemm1NBlocks = 64;

struct Dims {
  // The layer.
  uint32_t num_ranks = 1;
  uint32_t hidden = 0;
  uint32_t intermediate = 0;
  uint32_t num_experts = 0;  ///< routed, over all ranks
  uint32_t num_shared = 0;   ///< on every rank
  uint32_t top_k = 0;        ///< routed choices per token
  uint32_t max_tokens = 0;   ///< per rank
  // The tiles.
  uint32_t block_m = 0;
  uint32_t gemm1_block_n = 0;  ///< intermediate columns of one gemm1 tile; a multiple of kScaleGroup
  uint32_t gemm2_block_n = 0;  ///< hidden columns of one gemm2 tile
  uint32_t experts_per_wave = 0;

  MM_HOST_DEVICE constexpr uint32_t num_choices() const { return top_k + num_shared; }
  MM_HOST_DEVICE constexpr uint32_t num_all_experts() const { return num_experts + num_shared; }
  MM_HOST_DEVICE constexpr uint32_t num_local_max() const { return num_shared + ceil_div(num_experts, num_ranks); }
  MM_HOST_DEVICE constexpr uint32_t hidden_groups() const { return ceil_div(hidden, kScaleGroup); }
  MM_HOST_DEVICE constexpr uint32_t intermediate_groups() const { return ceil_div(intermediate, kScaleGroup); }
  /// Columns of rows that matrix products read: whole scale groups.
  MM_HOST_DEVICE constexpr uint32_t padded_hidden() const { return hidden_groups() * kScaleGroup; }
  MM_HOST_DEVICE constexpr uint32_t padded_intermediate() const { return intermediate_groups() * kScaleGroup; }
  MM_HOST_DEVICE constexpr uint32_t gemm1_n_blocks() const { return ceil_div(intermediate, gemm1_block_n); }
  MM_HOST_DEVICE constexpr uint32_t gemm2_n_blocks() const { return ceil_div(hidden, gemm2_block_n); }
  /// Slots that one source rank can send to one expert: a token may name the same expert in all its choices.
  MM_HOST_DEVICE constexpr uint64_t source_list_slots() const { return uint64_t{max_tokens} * top_k; }
  /// Worst case: every choice of every token of every rank comes here, and every expert pads its last block.
  MM_HOST_DEVICE constexpr uint64_t num_pool_rows() const {
    const uint64_t rows = uint64_t{num_ranks} * max_tokens * top_k + uint64_t{num_shared} * max_tokens;
    return align_up(rows + uint64_t{num_local_max()} * (block_m - 1U), kPoolRowAlign);
  }
  MM_HOST_DEVICE constexpr uint64_t num_pool_blocks() const { return num_pool_rows() / block_m; }
};

}  // namespace megamoe::flow
