#pragma once

// Where a GPU rank keeps its copies of what the caller holds in host memory: one allocation per rank, large enough for
// the plan's tokens, so that a call allocates nothing.

#include <cstdint>

#include "flow/dims.hpp"

namespace megamoe::internal {

/// Byte offsets in a rank's staging memory.
struct Sm90Staging {
  uint64_t x = 0;                  ///< [max_tokens, hidden], BF16 or e4m3
  uint64_t x_scale = 0;            ///< [max_tokens, hidden_groups], FP32 or E8M0
  uint64_t topk_ids = 0;           ///< [max_tokens, top_k], int32 or int64
  uint64_t topk_weights = 0;       ///< [max_tokens, top_k], FP32
  uint64_t y = 0;                  ///< [max_tokens, hidden], BF16
  uint64_t local_expert_rows = 0;  ///< [num_local_max]
  uint64_t num_bytes = 0;

  static constexpr Sm90Staging of(const flow::Dims& dims) {
    Sm90Staging staging;
    const uint64_t num_tokens = dims.max_tokens;
    const auto take = [&staging](uint64_t bytes) {
      constexpr uint64_t kAlign = 256;
      const uint64_t begin = staging.num_bytes;
      staging.num_bytes = flow::align_up(begin + bytes, kAlign);
      return begin;
    };
    staging.x = take(num_tokens * dims.hidden * sizeof(uint16_t));
    staging.x_scale = take(num_tokens * dims.hidden_groups() * sizeof(float));
    staging.topk_ids = take(num_tokens * dims.top_k * sizeof(int64_t));
    staging.topk_weights = take(num_tokens * dims.top_k * sizeof(float));
    staging.y = take(num_tokens * dims.hidden * sizeof(uint16_t));
    staging.local_expert_rows = take(uint64_t{dims.num_local_max()} * sizeof(uint32_t));
    return staging;
  }
};

}  // namespace megamoe::internal
