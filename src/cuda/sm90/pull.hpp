#pragma once

// pull: the receiving half of dispatch. The owner copies rows from their home ranks into its pool, a warp a row, and
// counts them in at their pool block.

#include "cuda/ptx/fence.hpp"
#include "cuda/sm90/pool_rows.hpp"
#include "cuda/sm90/tile_layout.hpp"
#include "flow/pull.hpp"

namespace megamoe::sm90 {

/// 16-byte loads that a lane has under way at once: over a link, bytes under way are bandwidth.
inline constexpr uint32_t kLoadsInFlight = 4;

/// One warp copies a row of `num_cols` codes, a multiple of 16, from a peer to row `row` of a tile of `num_rows` rows.
/// The rest of the last chunk becomes zeros: gemm1 multiplies whole chunks.
MM_DEVICE void copy_row(uint8_t* tile, uint32_t num_rows, uint32_t row, const uint8_t* from, uint32_t num_cols) {
  const uint32_t num_valid = num_cols / kPieceBytes;
  const uint32_t num_pieces = flow::ceil_div(num_cols, kChunkCols) * kChunkPieces;
  const auto* from_pieces = reinterpret_cast<const simt::Vec4*>(from);
  for (uint32_t begin = simt::lane_idx(); begin < num_pieces; begin += simt::kWarpLanes * kLoadsInFlight) {
    simt::Vec4 pieces[kLoadsInFlight] = {};
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      const uint32_t p = begin + i * simt::kWarpLanes;
      if (p < num_valid) pieces[i] = simt::load(from_pieces + p);
    }
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      const uint32_t p = begin + i * simt::kWarpLanes;
      if (p < num_pieces) simt::store(reinterpret_cast<simt::Vec4*>(tile + tile_offset(num_rows, row, p)), pieces[i]);
    }
  }
  // Bulk copies read the tile: through the async proxy.
  ptx::fence_proxy_async_global();
}

/// One warp pulls the row at `place` of `expert`'s run to pool row `row`.
MM_DEVICE void pull_row(const Worker& worker, flow::LocalExpert expert, uint32_t place, flow::PoolRow row) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const View<uint32_t> counts{worker.shared.recv_count + num(expert) * dims.num_ranks};
  const flow::Rank first = flow::pull_first_rank(arguments.rank, dims.num_ranks);
  const flow::PullSource from = flow::pull_source(counts, dims.num_ranks, first, place);
  const uint64_t list = uint64_t{num(expert)} * dims.num_ranks + num(from.rank);
  const uint32_t* slots = own.get<flow::Field::source_slot>() + list * dims.source_list_slots();
  const flow::Slot slot{simt::load(slots + from.list_idx)};
  const uint32_t token = num(flow::slot_token(slot, dims));
  const uint32_t choice = num(flow::slot_choice(slot, dims));

  const flow::Workspace there = arguments.peers().at(from.rank);
  const uint32_t row_in_block = num(row) % dims.block_m;
  copy_row(own.row<flow::Field::pool_x>(num(row) - row_in_block), dims.block_m, row_in_block,
           there.row<flow::Field::x>(token), dims.hidden);
  const float* scales = there.row<flow::Field::x_scale>(token);
  for (uint32_t g = simt::lane_idx(); g < dims.hidden_groups(); g += simt::kWarpLanes) {
    simt::store(own.row<flow::Field::pool_x_scale>(num(row)) + g, simt::load(scales + g));
  }
  if (simt::lane_idx() != 0) return;
  const bool is_routed = choice < dims.top_k;
  const float weight = is_routed ? simt::load(there.row<flow::Field::topk_weight>(token) + choice) : 1.0F;
  simt::store(own.get<flow::Field::pool_weight>() + num(row), weight);
  const flow::RowSource source{token, static_cast<uint16_t>(num(from.rank)), static_cast<uint16_t>(choice)};
  simt::store(own.get<flow::Field::source>() + num(row), source);
}

/// Copies what every row asks for to shared memory: rows per expert and source rank.
MM_DEVICE void load_recv_counts(const Worker& worker) {
  const flow::Dims& dims = worker.arguments.dims;
  const uint32_t* counts = worker.arguments.own().get<flow::Field::recv_count>();
  const uint32_t num_local = worker.arguments.placement().num_local(worker.arguments.rank);
  for (uint32_t i = simt::thread_idx(); i < num_local * dims.num_ranks; i += simt::num_threads()) {
    simt::store(worker.shared.recv_count + i, simt::load(counts + i));
  }
  simt::sync_threads();
}

/// REQUIRES the exchange barrier is behind: totals, counts, lists and staged rows of all ranks are final.
MM_DEVICE void pull(const Worker& worker) {
  const flow::Workspace own = worker.arguments.own();
  load_recv_counts(worker);
  for_each_pool_row(worker, [&](const PoolPlace& mine) {
    pull_row(worker, mine.expert, mine.place, mine.row);
    simt::syncwarp();
    if (simt::lane_idx() == 0) {
      uint32_t* arrived = own.get<flow::Field::arrived>() + num(mine.block);
      ptx::red_add<ptx::Order::release, ptx::Scope::gpu>(arrived, 1U);  // publish(arrived)
    }
  });
}

}  // namespace megamoe::sm90
