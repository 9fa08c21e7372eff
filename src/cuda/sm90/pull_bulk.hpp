#pragma once

// pull through shared memory: bulk copies bring rows to slots of their warp, which moves them on to the pool. So a
// block has as much under way as its shared memory holds, whatever its registers do: for a dispatch that runs alone on
// few SMs. pull.hpp has the way through registers, for kernels whose shared memory is not free.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/sm90/pull.hpp"
#include "cuda/sync/ring.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::sm90 {

/// Rows that a warp has under way at once.
inline constexpr uint32_t kPullSlots = 2;

/// A block's shared memory for it, behind SharedPlan: per warp a ring and its slots, a row's codes and scales each.
struct PullPlan {
  using RingState = sync::RingState<kPullSlots>;

  MM_HOST_DEVICE static constexpr uint32_t ring_bytes() {
    return static_cast<uint32_t>(flow::align_up(sizeof(RingState), kPieceBytes));
  }
  /// Bulk copies move whole pieces; other scales come by loads.
  MM_HOST_DEVICE static constexpr uint32_t scale_bytes(const flow::Dims& dims) {
    const uint32_t num_bytes = dims.hidden_groups() * static_cast<uint32_t>(sizeof(float));
    return num_bytes % kPieceBytes == 0 ? num_bytes : 0U;
  }
  MM_HOST_DEVICE static constexpr uint32_t slot_bytes(const flow::Dims& dims) {
    return dims.hidden + scale_bytes(dims);
  }
  MM_HOST_DEVICE static constexpr uint32_t warp_bytes(const flow::Dims& dims) {
    return ring_bytes() + kPullSlots * slot_bytes(dims);
  }
  MM_HOST_DEVICE static constexpr uint32_t num_bytes(const flow::Dims& dims, uint32_t num_warps) {
    return num_warps * warp_bytes(dims);
  }
};

/// A warp's ring and what stands in its slots.
struct PullRing {
  using Cursor = sync::RingCursor<kPullSlots>;

  PullPlan::RingState* state = nullptr;
  uint8_t* slots = nullptr;
  uint32_t slot_bytes = 0;

  MM_DEVICE static PullRing of_warp(const Worker& worker) {
    const flow::Dims& dims = worker.arguments.dims;
    uint8_t* mine = worker.shared.end + simt::warp_idx() * PullPlan::warp_bytes(dims);
    return {reinterpret_cast<PullPlan::RingState*>(mine), mine + PullPlan::ring_bytes(), PullPlan::slot_bytes(dims)};
  }
  MM_DEVICE sync::Ring<kPullSlots> ring() const { return sync::Ring<kPullSlots>(state); }
  MM_DEVICE const uint8_t* slot(const Cursor& at) const { return slots + at.slot * slot_bytes; }

  /// By one lane, into a slot that nobody reads any more.
  MM_DEVICE void fetch(const Arguments& arguments, const PullItem& item, const Cursor& at) const {
    const flow::Dims& dims = arguments.dims;
    const flow::Workspace there = arguments.peers().at(item.rank);
    uint8_t* to = slots + at.slot * slot_bytes;
    ring().publish(at, slot_bytes, 0);
    ptx::bulk_load(to, there.row<flow::Field::x>(num(item.token)), dims.hidden, ring().filled(at));
    const uint32_t scale_bytes = PullPlan::scale_bytes(dims);
    if (scale_bytes == 0) return;
    ptx::bulk_load(to + dims.hidden, there.row<flow::Field::x_scale>(num(item.token)), scale_bytes, ring().filled(at));
  }
};

/// Fetches lane `lane`'s row, if it has one. All lanes.
MM_DEVICE void fetch_row(const Worker& worker, const PullRing& slots, const PullItem& mine, uint32_t lane,
                         uint32_t num_items, PullRing::Cursor& at) {
  if (lane >= num_items) return;
  const PullItem item = item_of_lane(mine, lane);
  if (simt::lane_idx() == 0) slots.fetch(worker.arguments, item, at);
  at.advance();
}

/// The scales of a row whose slot is full, or of one that has none there.
MM_DEVICE void store_scales(const Arguments& arguments, const PullItem& item, const uint8_t* slot) {
  const flow::Dims& dims = arguments.dims;
  const bool is_here = PullPlan::scale_bytes(dims) > 0;
  const float* from = is_here ? reinterpret_cast<const float*>(slot + dims.hidden)
                              : arguments.peers().at(item.rank).row<flow::Field::x_scale>(num(item.token));
  float* to = arguments.own().row<flow::Field::pool_x_scale>(num(item.row));
  for (uint32_t g = simt::lane_idx(); g < dims.hidden_groups(); g += simt::kWarpLanes) {
    simt::store(to + g, simt::load(from + g));
  }
}

/// One warp moves a fetched row on to the pool.
MM_DEVICE void store_row(const Arguments& arguments, const PullItem& item, const uint8_t* slot) {
  const flow::Dims& dims = arguments.dims;
  const uint32_t row_in_block = num(item.row) % dims.block_m;
  uint8_t* tile = arguments.own().row<flow::Field::pool_x>(num(item.row) - row_in_block);
  for (uint32_t begin = 0; begin < dims.padded_hidden() / kPieceBytes; begin += kRoundPieces) {
    RowRound round;
    round.load(slot, begin, dims.hidden);
    round.store(tile, dims.block_m, row_in_block, begin, dims.hidden);
  }
  store_scales(arguments, item, slot);
}

/// The rows that each lane of a warp has found. False: a copy did not come in time.
MM_DEVICE sync::GoOn pull_items(const Worker& worker, const PullRing& slots, const PullItem& mine, uint32_t num_items,
                                PullRing::Cursor& fetched, PullRing::Cursor& stored) {
  const Arguments& arguments = worker.arguments;
  const sync::Waiter waiter = worker.waiter(static_cast<uint32_t>(Stage::pull));
  for (uint32_t lane = 0; lane < kPullSlots; ++lane) fetch_row(worker, slots, mine, lane, num_items, fetched);
  PulledRows pulled;
  for (uint32_t lane = 0; lane < num_items; ++lane) {
    const PullItem item = item_of_lane(mine, lane);
    if (slots.ring().wait_filled(waiter, stored) == sync::kRingStop) return false;
    store_row(arguments, item, slots.slot(stored));
    stored.advance();
    // Every lane has read the slot: the next row may come there.
    simt::syncwarp();
    fetch_row(worker, slots, mine, lane + kPullSlots, num_items, fetched);
    pulled.publish(arguments.own());
    pulled = {{item.block}, 1U};
  }
  pulled.publish(arguments.own());
  return true;
}

/// As pull(). REQUIRES PullPlan::num_bytes of shared memory behind SharedPlan.
MM_DEVICE void pull_bulk(const Worker& worker) {
  const PullRing slots = PullRing::of_warp(worker);
  if (simt::lane_idx() == 0) {
    slots.ring().init(1);
    // Rows were staged by ordinary stores, here and on the other ranks; copies read them through the async proxy.
    ptx::fence_proxy_async_global();
  }
  load_recv_counts(worker);
  load_pool_map(worker);
  const uint32_t num_rows = num_pool_rows(worker);
  const uint32_t stride = worker.num_rank_warps();
  PullRing::Cursor fetched;
  PullRing::Cursor stored;
  for (uint32_t begin = worker.rank_warp_idx(); begin < num_rows; begin += simt::kWarpLanes * stride) {
    const uint32_t num_items = flow::min_of(simt::kWarpLanes, flow::ceil_div(num_rows - begin, stride));
    PullItem mine;
    if (simt::lane_idx() < num_items) mine = find_item(worker, begin + simt::lane_idx() * stride);
    if (!pull_items(worker, slots, mine, num_items, fetched, stored)) return;
  }
}

}  // namespace megamoe::sm90
