#pragma once

// push: results of whole rows go home, a warp a row, straight into the partials of the ranks that the rows came from.
// For callers that have results in memory; gemm2 brings its tiles home itself.

#include "cuda/sm90/pool_rows.hpp"

namespace megamoe::sm90 {

/// 16-byte accesses that a lane has under way at once.
inline constexpr uint32_t kPushesInFlight = 8;

/// One warp brings pool row `row` home.
MM_DEVICE void push_row(const Arguments& arguments, flow::PoolRow row) {
  const uint32_t hidden = arguments.dims.hidden;
  const flow::RowSource source = simt::load(arguments.own().get<flow::Field::source>() + num(row));
  const flow::Workspace home = arguments.peers().at(flow::Rank{source.rank});
  uint16_t* partial = home.row<flow::Field::partial>(source.choice) + uint64_t{source.token} * hidden;
  auto* to = reinterpret_cast<simt::Vec4*>(partial);
  const auto* from = reinterpret_cast<const simt::Vec4*>(arguments.results + uint64_t{num(row)} * hidden);
  const uint32_t num_vecs =
      hidden * static_cast<uint32_t>(sizeof(uint16_t)) / static_cast<uint32_t>(sizeof(simt::Vec4));
  for (uint32_t begin = simt::lane_idx(); begin < num_vecs; begin += simt::kWarpLanes * kPushesInFlight) {
    simt::Vec4 vecs[kPushesInFlight];
    MM_UNROLL
    for (uint32_t i = 0; i < kPushesInFlight; ++i) {
      const uint32_t v = begin + i * simt::kWarpLanes;
      if (v < num_vecs) vecs[i] = simt::load(from + v);
    }
    MM_UNROLL
    for (uint32_t i = 0; i < kPushesInFlight; ++i) {
      const uint32_t v = begin + i * simt::kWarpLanes;
      if (v < num_vecs) simt::store(to + v, vecs[i]);
    }
  }
}

/// REQUIRES dispatch of this call has ended on this rank. The barrier before combine makes the rows visible at home.
MM_DEVICE void push(const Worker& worker) {
  load_pool_map(worker);
  const uint32_t num_rows = num_pool_rows(worker);
  for (uint32_t i = worker.rank_warp_idx(); i < num_rows; i += worker.num_rank_warps()) {
    push_row(worker.arguments, find_pool_row(worker, i).row);
  }
}

}  // namespace megamoe::sm90
