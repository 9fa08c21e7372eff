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
/// Pieces of a row that one round of loads brings.
inline constexpr uint32_t kRoundPieces = simt::kWarpLanes * kLoadsInFlight;

/// Where a pool row comes from and goes to.
struct PullItem {
  flow::PoolBlock block{};
  flow::PoolRow row{};
  flow::Rank rank{};
  flow::Token token{};
};

/// One lane finds a row's source and stores what the row brings besides codes and scales. REQUIRES load_recv_counts,
/// load_pool_map.
MM_DEVICE PullItem find_item(const Worker& worker, uint32_t row_idx) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const PoolPlace to = find_pool_row(worker, row_idx);
  const View<uint32_t> counts{worker.shared.recv_count + num(to.expert) * dims.num_ranks};
  const flow::Rank first = flow::pull_first_rank(arguments.rank, dims.num_ranks);
  const flow::PullSource from = flow::pull_source(counts, dims.num_ranks, first, to.place);
  const uint64_t list = uint64_t{num(to.expert)} * dims.num_ranks + num(from.rank);
  const uint32_t* slots = own.get<flow::Field::source_slot>() + list * dims.source_list_slots();
  const flow::Slot slot{simt::load(slots + from.list_idx)};
  const flow::Token token = flow::slot_token(slot, dims);
  const uint32_t choice = num(flow::slot_choice(slot, dims));

  const float* weights = arguments.peers().at(from.rank).row<flow::Field::topk_weight>(num(token));
  const float weight = choice < dims.top_k ? simt::load(weights + choice) : 1.0F;
  simt::store(own.get<flow::Field::pool_weight>() + num(to.row), weight);
  const flow::RowSource source{num(token), static_cast<uint16_t>(num(from.rank)), static_cast<uint16_t>(choice)};
  simt::store(own.get<flow::Field::source>() + num(to.row), source);
  return {to.block, to.row, from.rank, token};
}

/// One round of a row, a piece a lane and load. Pieces beyond the row's columns are zeros.
struct RowRound {
  simt::Vec4 pieces[kLoadsInFlight] = {};

  MM_DEVICE void load(const uint8_t* row, uint32_t begin, uint32_t num_cols) {
    const uint32_t first = begin + simt::lane_idx();
    const uint32_t end = num_cols / kPieceBytes;
    const auto* from = reinterpret_cast<const simt::Vec4*>(row) + first;
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      pieces[i] = first + i * simt::kWarpLanes < end ? simt::load(from + i * simt::kWarpLanes) : simt::Vec4{};
    }
  }
  /// To row `row` of a tile of `num_rows` rows. The rest of the last chunk becomes zeros: gemm1 multiplies whole
  /// chunks.
  MM_DEVICE void store(uint8_t* tile, uint32_t num_rows, uint32_t row, uint32_t begin, uint32_t num_cols) const {
    const uint32_t first = begin + simt::lane_idx();
    const uint32_t end = flow::ceil_div(num_cols, kChunkCols) * kChunkPieces;
    // From one load to the next a lane keeps its place in the chunk, which is another one.
    static_assert(simt::kWarpLanes % kChunkPieces == 0);
    uint8_t* to = tile + tile_offset(num_rows, row, first);
    const uint32_t step = simt::kWarpLanes / kChunkPieces * chunk_bytes(num_rows);
    MM_UNROLL
    for (uint32_t i = 0; i < kLoadsInFlight; ++i) {
      if (first + i * simt::kWarpLanes < end) simt::store(reinterpret_cast<simt::Vec4*>(to + i * step), pieces[i]);
    }
  }
};

/// A row's scales, a group a lane and load; those beyond are copied behind the codes.
struct PulledScales {
  static constexpr uint32_t kLoads = 2;
  float values[kLoads] = {};

  MM_DEVICE void load(const float* from, uint32_t num_groups) {
    MM_UNROLL
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t g = simt::lane_idx() + i * simt::kWarpLanes;
      values[i] = g < num_groups ? simt::load(from + g) : 0.0F;
    }
  }
  /// To row `row` of a tile of `num_rows` rows.
  MM_DEVICE void store(float* tile, uint32_t num_rows, uint32_t row, const float* from, uint32_t num_groups) const {
    MM_UNROLL
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t g = simt::lane_idx() + i * simt::kWarpLanes;
      if (g < num_groups) simt::store(tile + scale_offset(num_rows, row, g), values[i]);
    }
    for (uint32_t g = simt::lane_idx() + kLoads * simt::kWarpLanes; g < num_groups; g += simt::kWarpLanes) {
      simt::store(tile + scale_offset(num_rows, row, g), simt::load(from + g));
    }
  }
};

/// Copies what every row asks for to shared memory: rows per expert and source rank.
MM_DEVICE void load_recv_counts(const Worker& worker) {
  const flow::Dims& dims = worker.arguments.dims;
  const uint32_t* counts = worker.arguments.own().get<flow::Field::recv_count>();
  const uint32_t num_local = worker.arguments.placement().num_local(worker.arguments.rank);
  for (uint32_t i = simt::thread_idx(); i < num_local * dims.num_ranks; i += simt::num_threads()) {
    simt::store(worker.shared.recv_count + i, simt::load(counts + i));
  }
}

/// The item that lane `lane` holds. All lanes.
MM_DEVICE PullItem item_of_lane(const PullItem& mine, uint32_t lane) {
  return {flow::PoolBlock{simt::shfl(simt::kAllLanes, num(mine.block), lane)},
          flow::PoolRow{simt::shfl(simt::kAllLanes, num(mine.row), lane)},
          flow::Rank{simt::shfl(simt::kAllLanes, num(mine.rank), lane)},
          flow::Token{simt::shfl(simt::kAllLanes, num(mine.token), lane)}};
}

/// A row on its way through registers.
struct RowOnTheWay {
  RowRound round;
  PulledScales scales;

  MM_DEVICE void load(const Arguments& arguments, const PullItem& item) {
    const flow::Workspace there = arguments.peers().at(item.rank);
    round.load(there.row<flow::Field::x>(num(item.token)), 0, arguments.dims.hidden);
    scales.load(there.row<flow::Field::x_scale>(num(item.token)), arguments.dims.hidden_groups());
  }

  MM_DEVICE void store(const Arguments& arguments, const PullItem& item) {
    const flow::Dims& dims = arguments.dims;
    const flow::Workspace own = arguments.own();
    const flow::Workspace there = arguments.peers().at(item.rank);
    const uint32_t row_in_block = num(item.row) % dims.block_m;
    uint8_t* tile = own.row<flow::Field::pool_x>(num(item.row) - row_in_block);
    scales.store(own.row<flow::Field::pool_x_scale>(num(item.row) - row_in_block), dims.block_m, row_in_block,
                 there.row<flow::Field::x_scale>(num(item.token)), dims.hidden_groups());
    round.store(tile, dims.block_m, row_in_block, 0, dims.hidden);
    for (uint32_t begin = kRoundPieces; begin < dims.padded_hidden() / kPieceBytes; begin += kRoundPieces) {
      round.load(there.row<flow::Field::x>(num(item.token)), begin, dims.hidden);
      round.store(tile, dims.block_m, row_in_block, begin, dims.hidden);
    }
  }
};

/// Rows that a warp counts in with one fence, which waits for its stores.
inline constexpr uint32_t kRowsPerFence = 4;

/// Rows of one warp whose stores are issued and that their blocks do not count yet.
struct PendingRows {
  flow::PoolBlock block{};  ///< of the row that this lane counts in
  uint32_t num_rows = 0;    ///< of the warp, those of the first lanes

  MM_DEVICE void add(flow::PoolBlock of_row) {
    if (simt::lane_idx() == num_rows) block = of_row;
    ++num_rows;
  }
  /// All lanes.
  MM_DEVICE void publish(const flow::Workspace& own) {
    if (num_rows == 0) return;
    // Bulk copies read the tiles: through the async proxy.
    ptx::fence_proxy_async_global();
    simt::syncwarp();
    ptx::fence_acq_rel<ptx::Scope::gpu>();
    if (simt::lane_idx() < num_rows) {
      uint32_t* arrived = own.get<flow::Field::arrived>() + num(block);
      ptx::red_add<ptx::Order::relaxed, ptx::Scope::gpu>(arrived, 1U);  // publish(arrived)
    }
    num_rows = 0;
  }
};

/// One warp pulls one row, and publishes those before it while its loads are under way.
MM_DEVICE void pull_row(const Arguments& arguments, const PullItem& item, PendingRows& pending) {
  RowOnTheWay row;
  row.load(arguments, item);
  if (pending.num_rows == kRowsPerFence) pending.publish(arguments.own());
  row.store(arguments, item);
  pending.add(item.block);
}

/// Rows that a warp takes together. Neighbours come from different ranks: every warp has its share of the slow way.
inline constexpr uint32_t kRowsPerUnit = 2;

/// REQUIRES the exchange barrier is behind: totals, counts, lists and staged rows of all ranks are final.
MM_DEVICE void pull(const Worker& worker) {
  load_recv_counts(worker);
  load_pool_map(worker);
  const uint32_t num_rows = num_pool_rows(worker);
  const uint32_t num_units = flow::ceil_div(num_rows, kRowsPerUnit);
  const uint32_t stride = worker.num_rank_warps();
  constexpr uint32_t kUnits = simt::kWarpLanes / kRowsPerUnit;
  PendingRows pending;
  for (uint32_t begin = worker.rank_warp_idx(); begin < num_units; begin += kUnits * stride) {
    // Each lane finds one of the warp's next rows: the search costs as much as the row's way over the link.
    const uint32_t row_idx =
        (begin + simt::lane_idx() / kRowsPerUnit * stride) * kRowsPerUnit + simt::lane_idx() % kRowsPerUnit;
    // Only the last unit of all can be short.
    const bool has_row = row_idx < num_rows;
    const uint32_t num_items = simt::reduce_add(simt::kAllLanes, has_row ? 1U : 0U);
    PullItem mine;
    if (has_row) mine = find_item(worker, row_idx);
    for (uint32_t lane = 0; lane < num_items; ++lane) {
      pull_row(worker.arguments, item_of_lane(mine, lane), pending);
    }
  }
  pending.publish(worker.arguments.own());
}

}  // namespace megamoe::sm90
