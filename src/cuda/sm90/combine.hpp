#pragma once

// combine: a token's partials, in the order of its choices, become its output row. reset: behind it, for the next call.

#include "cuda/sm90/convert_pair.hpp"
#include "cuda/sm90/worker.hpp"
#include "flow/count.hpp"

namespace megamoe::sm90 {

/// BF16 columns of one 16-byte access.
inline constexpr uint32_t kVecCols = 8;

/// Adds one partial's columns to the running sums.
MM_DEVICE void add_partial(float (&sums)[kVecCols], const simt::Vec4& partial, float weight,
                           flow::RouterWeightRule rule) {
  const uint32_t words[kVecCols / 2] = {partial.x, partial.y, partial.z, partial.w};
  MM_UNROLL
  for (uint32_t i = 0; i < kVecCols; ++i) {
    const auto value = static_cast<uint16_t>(words[i / 2U] >> (16U * (i % 2U)));
    sums[i] = flow::combine_add(sums[i], value, weight, rule);
  }
}

/// Partials that a thread has under way at once.
inline constexpr uint32_t kPartialsInFlight = 8;

/// One thread combines kVecCols columns of one token.
MM_DEVICE void combine_cols(const Arguments& arguments, flow::Token token, uint32_t col) {
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const TokenIds ids = ids_of(arguments, token);
  const uint64_t first = uint64_t{num(token)} * dims.hidden + col;
  float sums[kVecCols] = {};
  for (uint32_t begin = 0; begin < dims.num_choices(); begin += kPartialsInFlight) {
    bool is_valid[kPartialsInFlight];
    MM_UNROLL
    for (uint32_t i = 0; i < kPartialsInFlight; ++i) {
      const flow::Choice choice{begin + i};
      is_valid[i] = begin + i < dims.num_choices() && flow::choice_expert(ids, choice, dims) != flow::kNoExpert;
    }
    // In a loop of their own, so that they travel together.
    simt::Vec4 partials[kPartialsInFlight];
    MM_UNROLL
    for (uint32_t i = 0; i < kPartialsInFlight; ++i) {
      const uint16_t* partial = own.row<flow::Field::partial>(begin + i) + first;
      partials[i] = is_valid[i] ? simt::load(reinterpret_cast<const simt::Vec4*>(partial)) : simt::Vec4{};
    }
    MM_UNROLL
    for (uint32_t i = 0; i < kPartialsInFlight; ++i) {
      if (!is_valid[i]) continue;
      const uint32_t k = begin + i;
      const bool is_weighted = arguments.weight_rule == flow::RouterWeightRule::at_combine && k < dims.top_k;
      const float weight = is_weighted ? simt::load(own.row<flow::Field::topk_weight>(num(token)) + k) : 1.0F;
      add_partial(sums, partials[i], weight, arguments.weight_rule);
    }
  }
  const simt::Vec4 rounded{bf16_pair(sums[0], sums[1]), bf16_pair(sums[2], sums[3]), bf16_pair(sums[4], sums[5]),
                           bf16_pair(sums[6], sums[7])};
  uint16_t* y = arguments.y + uint64_t{num(token)} * dims.hidden;
  simt::store(reinterpret_cast<simt::Vec4*>(y + col), rounded);
}

/// REQUIRES the barrier before combine is behind: all partials are home.
MM_DEVICE void combine(const Worker& worker) {
  const Arguments& arguments = worker.arguments;
  // A warp takes a segment of a token's row.
  constexpr uint32_t kSegmentCols = simt::kWarpLanes * kVecCols;
  const uint32_t num_segments = flow::ceil_div(arguments.dims.hidden, kSegmentCols);
  const uint32_t num_units = arguments.num_tokens * num_segments;
  for (uint32_t i = worker.rank_warp_idx(); i < num_units; i += worker.num_rank_warps()) {
    const uint32_t col = i % num_segments * kSegmentCols + simt::lane_idx() * kVecCols;
    if (col < arguments.dims.hidden) combine_cols(arguments, flow::Token{i / num_segments}, col);
  }
}

template <flow::Field kField>
MM_DEVICE void clear(const Worker& worker, uint64_t count) {
  auto* elements = worker.arguments.own().get<kField>();
  for (uint64_t i = worker.rank_thread_idx(); i < count; i += worker.num_rank_threads()) {
    simt::store(elements + i, flow::Workspace::Element<kField>{});
  }
}

/// Everything that counts up during a call; lists and rows are overwritten by the next one. Reports the rows of routed
/// experts on the way. REQUIRES no worker of this rank is still at a tile; the barrier after reset lies ahead.
MM_DEVICE void reset(const Worker& worker) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const uint32_t num_local = arguments.placement().num_local(arguments.rank);
  uint64_t* totals = arguments.own().get<flow::Field::recv_total>();
  for (uint32_t e = worker.rank_thread_idx(); e < num_local; e += worker.num_rank_threads()) {
    const uint32_t num_rows = flow::CountWord{simt::load(totals + e)}.num_rows();
    if (arguments.local_expert_rows != nullptr && e >= dims.num_shared) {
      simt::store(arguments.local_expert_rows + (e - dims.num_shared), num_rows);
    }
    simt::store(totals + e, uint64_t{0});
  }
  clear<flow::Field::next_tile>(worker, 1);
  clear<flow::Field::send_count>(worker, dims.num_all_experts());
  // All blocks, also those that this call did not use: how many it used no longer stands anywhere.
  clear<flow::Field::arrived>(worker, dims.num_pool_blocks());
  clear<flow::Field::done_mask>(worker, dims.num_pool_blocks());
}

}  // namespace megamoe::sm90
