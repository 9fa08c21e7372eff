#pragma once

// pull: the receiving half of dispatch. The owner copies rows from their home ranks into its pool, a warp a row, and
// counts them in at their pool block.

#include "cuda/ptx/fence.hpp"
#include "cuda/sm90/pool_rows.hpp"
#include "cuda/sm90/tile_layout.hpp"
#include "flow/pull.hpp"

namespace megamoe::sm90 {

/// 16-byte loads that a lane has under way at once: over a link, bytes under way are bandwidth.
inline constexpr uint32_t kLoadsInFlight = 8;
/// Bytes of a row that one round of loads brings.
inline constexpr uint32_t kRoundPieces = simt::kWarpLanes * kLoadsInFlight;

/// Where a pool row comes from and goes to.
struct PullItem {
  flow::PoolBlock block{};
  flow::PoolRow row{};
  flow::Rank rank{};
  flow::Slot slot{};
};

/// REQUIRES load_recv_counts, load_pool_map. The slot's load is under way when this returns.
MM_DEVICE PullItem find_item(const Worker& worker, uint32_t row_idx) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const PoolPlace to = find_pool_row(worker, row_idx);
  const View<uint32_t> counts{worker.shared.recv_count + num(to.expert) * dims.num_ranks};
  const flow::Rank first = flow::pull_first_rank(arguments.rank, dims.num_ranks);
  const flow::PullSource from = flow::pull_source(counts, dims.num_ranks, first, to.place);
  const uint64_t list = uint64_t{num(to.expert)} * dims.num_ranks + num(from.rank);
  const uint32_t* slots = arguments.own().get<flow::Field::source_slot>() + list * dims.source_list_slots();
  return {to.block, to.row, from.rank, flow::Slot{simt::load(slots + from.list_idx)}};
}

/// One round of a row, a piece a lane and load. Pieces beyond the row's columns are zeros.
struct RowRound {
  simt::Vec4 pieces[kLoadsInFlight] = {};

  MM_DEVICE void load(const uint8_t* row, uint32_t begin, uint32_t num_cols) {
    const auto* from = reinterpret_cast<const simt::Vec4*>(row);
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      const uint32_t p = begin + i * simt::kWarpLanes + simt::lane_idx();
      pieces[i] = p < num_cols / kPieceBytes ? simt::load(from + p) : simt::Vec4{};
    }
  }
  /// To row `row` of a tile of `num_rows` rows. The rest of the last chunk becomes zeros: gemm1 multiplies whole
  /// chunks.
  MM_DEVICE void store(uint8_t* tile, uint32_t num_rows, uint32_t row, uint32_t begin, uint32_t num_cols) const {
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      const uint32_t p = begin + i * simt::kWarpLanes + simt::lane_idx();
      if (p >= flow::ceil_div(num_cols, kChunkCols) * kChunkPieces) continue;
      simt::store(reinterpret_cast<simt::Vec4*>(tile + tile_offset(num_rows, row, p)), pieces[i]);
    }
  }
};

/// The row's weight and where it came from, by one lane.
MM_DEVICE void pull_facts(const Arguments& arguments, const PullItem& item, uint32_t token) {
  const flow::Workspace own = arguments.own();
  const flow::Workspace there = arguments.peers().at(item.rank);
  const uint32_t choice = num(flow::slot_choice(item.slot, arguments.dims));
  const bool is_routed = choice < arguments.dims.top_k;
  const float weight = is_routed ? simt::load(there.row<flow::Field::topk_weight>(token) + choice) : 1.0F;
  simt::store(own.get<flow::Field::pool_weight>() + num(item.row), weight);
  const flow::RowSource source{token, static_cast<uint16_t>(num(item.rank)), static_cast<uint16_t>(choice)};
  simt::store(own.get<flow::Field::source>() + num(item.row), source);
}

/// Counts a row in at its block. All lanes, after their stores.
MM_DEVICE void publish_arrival(const Worker& worker, flow::PoolBlock block) {
  simt::syncwarp();
  if (simt::lane_idx() != 0) return;
  uint32_t* arrived = worker.arguments.own().get<flow::Field::arrived>() + num(block);
  ptx::red_add<ptx::Order::release, ptx::Scope::gpu>(arrived, 1U);  // publish(arrived)
}

/// Copies what every row asks for to shared memory: rows per expert and source rank.
MM_DEVICE void load_recv_counts(const Worker& worker) {
  const flow::Dims& dims = worker.arguments.dims;
  const uint32_t* counts = worker.arguments.own().get<flow::Field::recv_count>();
  const uint32_t num_local = worker.arguments.placement().num_local(worker.arguments.rank);
  for (uint32_t i = simt::thread_idx(); i < num_local * dims.num_ranks; i += simt::num_threads()) {
    simt::store(worker.shared.recv_count + i, simt::load(counts + i));
  }
}

/// No row before the first.
inline constexpr flow::PoolBlock kNoBlock{~0U};

/// One warp pulls a row, and publishes the one that it pulled before, into block `before`, while the loads are under
/// way: a release waits for stores.
MM_DEVICE void pull_row(const Worker& worker, const PullItem& item, flow::PoolBlock before) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const flow::Workspace there = arguments.peers().at(item.rank);
  const uint32_t token = num(flow::slot_token(item.slot, dims));
  const uint8_t* from = there.row<flow::Field::x>(token);
  const uint32_t row_in_block = num(item.row) % dims.block_m;
  uint8_t* tile = own.row<flow::Field::pool_x>(num(item.row) - row_in_block);

  RowRound round;
  round.load(from, 0, dims.hidden);
  const float* scales = there.row<flow::Field::x_scale>(token);
  for (uint32_t g = simt::lane_idx(); g < dims.hidden_groups(); g += simt::kWarpLanes) {
    simt::store(own.row<flow::Field::pool_x_scale>(num(item.row)) + g, simt::load(scales + g));
  }
  if (simt::lane_idx() == 0) pull_facts(arguments, item, token);
  if (before != kNoBlock) publish_arrival(worker, before);
  round.store(tile, dims.block_m, row_in_block, 0, dims.hidden);
  for (uint32_t begin = kRoundPieces; begin < dims.padded_hidden() / kPieceBytes; begin += kRoundPieces) {
    round.load(from, begin, dims.hidden);
    round.store(tile, dims.block_m, row_in_block, begin, dims.hidden);
  }
  // Bulk copies read the tile: through the async proxy.
  ptx::fence_proxy_async_global();
}

/// REQUIRES the exchange barrier is behind: totals, counts, lists and staged rows of all ranks are final.
MM_DEVICE void pull(const Worker& worker) {
  load_recv_counts(worker);
  load_pool_map(worker);
  const uint32_t num_rows = num_pool_rows(worker);
  const uint32_t stride = worker.num_rank_warps();
  uint32_t row_idx = worker.rank_warp_idx();
  if (row_idx >= num_rows) return;
  PullItem item = find_item(worker, row_idx);
  flow::PoolBlock before = kNoBlock;
  while (true) {
    // The next row's slot comes while this row does.
    row_idx += stride;
    const bool has_next = row_idx < num_rows;
    const PullItem next = has_next ? find_item(worker, row_idx) : PullItem{};
    pull_row(worker, item, before);
    before = item.block;
    item = next;
    if (!has_next) break;
  }
  publish_arrival(worker, before);
}

}  // namespace megamoe::sm90
