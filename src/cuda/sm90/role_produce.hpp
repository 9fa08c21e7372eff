#pragma once

// The producer: one thread walks the tiles of its block and brings their operands into the ring, a chunk of 128 columns
// of K to a slot. Weights do not wait for rows: they are under way while the rows of a block are still arriving. Before
// that it announces the tile in a ring of notes, which both math groups follow; a tile's chunks are for its owners
// only.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/sm90/gemm_plan.hpp"
#include "cuda/sm90/pool_rows.hpp"

namespace megamoe::sm90 {

/// The producer's tile from here on. It stands in shared memory: its addresses would take half of the producer's
/// registers.
template <GemmConfig kConfig>
MM_DEVICE void store_source(const GemmWorker<kConfig>& gemm, const flow::Tile& tile) {
  const GemmOperands operands = operands_of<kConfig>(gemm.arguments(), tile.phase);
  const MatrixLayout& layout = operands.matrix.layout;
  const uint32_t block_m = gemm.arguments().dims.block_m;
  const uint32_t n_tile = kTileHalves * tile.n_block;
  const uint64_t first_chunk = num(tile.expert) * layout.num_scales() + layout.chunk_idx(n_tile, 0);
  const uint64_t first_row = uint64_t{num(tile.block)} * layout.num_chunks * block_m;
  TileSource* source = gemm.shared.source;
  simt::store(&source->rows, operands.rows + first_row * kChunkCols);
  simt::store(&source->row_scales, operands.row_scales + first_row);
  simt::store(&source->weights, operands.matrix.codes + first_chunk * chunk_bytes(kTileRows));
  simt::store(&source->scales, operands.matrix.scales + first_chunk);
  simt::store(&source->num_halves, layout.pair_size(n_tile));
  simt::store(&source->num_chunks, layout.num_chunks);
  simt::store(&source->num_rows, tile.num_rows);
  simt::store(&source->block_m, block_m);
}

/// The pool's map, by one warp. ENSURES what PoolMap::build() ensures. REQUIRES the exchange barrier is behind.
template <GemmConfig kConfig>
MM_DEVICE flow::PoolMap load_pool_map(const GemmWorker<kConfig>& gemm) {
  const Arguments& arguments = gemm.arguments();
  const uint32_t num_local = arguments.placement().num_local(arguments.rank);
  const uint64_t* totals = arguments.own().template get<flow::Field::recv_total>();
  const uint32_t lane = simt::lane_idx();
  uint32_t first_block = 0;
  for (uint32_t begin = 0; begin < num_local; begin += simt::kWarpLanes) {
    const uint32_t e = begin + lane;
    const uint32_t num_rows = e < num_local ? flow::CountWord{simt::load(totals + e)}.num_rows() : 0U;
    // Of the expert's blocks, behind first_block.
    const uint32_t end = inclusive_sum(flow::ceil_div(num_rows, arguments.dims.block_m));
    if (e < num_local) {
      simt::store(gemm.shared.pool_rows + e, num_rows);
      simt::store(gemm.shared.first_block + e + 1U, first_block + end);
    }
    first_block += simt::shfl(simt::kAllLanes, end, simt::kWarpLanes - 1U);
  }
  if (lane == 0) simt::store(gemm.shared.first_block, 0U);
  simt::syncwarp();
  return {gemm.shared.pool_rows, gemm.shared.first_block, num_local, arguments.dims.block_m};
}

/// Both n tiles of chunk `chunk`, into a slot that has been released.
template <GemmConfig kConfig>
MM_DEVICE void load_weights(const GemmWorker<kConfig>& gemm, uint32_t chunk,
                            const typename GemmWorker<kConfig>::Cursor& at) {
  constexpr uint32_t kScaleBytes = sizeof(ScalePair);
  const auto ring = gemm.ring();
  const TileSource* source = gemm.shared.source;
  const uint32_t num_halves = simt::load(&source->num_halves);
  const uint32_t num_bytes = num_halves * chunk_bytes(kTileRows);
  const uint64_t chunk_idx = uint64_t{chunk} * num_halves;
  const ScalePair* scales = simt::load(&source->scales) + chunk_idx;
  ring.expect(at, num_bytes + kTileHalves * kScaleBytes);
  ptx::bulk_load(gemm.shared.weights(at.slot, 0), simt::load(&source->weights) + chunk_idx * chunk_bytes(kTileRows),
                 num_bytes, ring.filled(at));
  ptx::bulk_load(gemm.shared.weight_scales(at.slot, 0), scales, num_halves * kScaleBytes, ring.filled(at));
  if (num_halves == kTileHalves) return;
  // Where the matrix ends with the tile's first half, nobody looks at the second one's products.
  ptx::bulk_load(gemm.shared.weight_scales(at.slot, 1), scales, kScaleBytes, ring.filled(at));
}

/// The valid rows of chunk `chunk` and their scales; this completes the item.
template <GemmConfig kConfig>
MM_DEVICE void load_rows(const GemmWorker<kConfig>& gemm, uint32_t tile_idx, uint32_t chunk,
                         const typename GemmWorker<kConfig>::Cursor& at) {
  const auto ring = gemm.ring();
  const TileSource* source = gemm.shared.source;
  const uint32_t num_rows = simt::load(&source->num_rows);
  const uint32_t row_bytes = chunk_bytes(num_rows);
  const uint32_t scale_bytes = copied_scales(num_rows) * static_cast<uint32_t>(sizeof(float));
  const uint64_t first_row = uint64_t{chunk} * simt::load(&source->block_m);
  ring.publish(at, row_bytes + scale_bytes, tile_idx);
  ptx::bulk_load(gemm.shared.activations(at.slot), simt::load(&source->rows) + first_row * kChunkCols, row_bytes,
                 ring.filled(at));
  ptx::bulk_load(gemm.shared.scales_of_rows(at.slot), simt::load(&source->row_scales) + first_row, scale_bytes,
                 ring.filled(at));
}

/// Tells the math groups of a tile whose first chunk will be item `at` of the ring. False: a wait has failed.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn announce(const GemmWorker<kConfig>& gemm, const flow::Tile& tile, Owner owner, uint32_t tile_idx,
                              const typename GemmWorker<kConfig>::Cursor& at) {
  const auto note_ring = gemm.note_ring();
  const auto note_at = gemm.note_cursor(tile_idx);
  if (!note_ring.wait_released(gemm.waiter(tile.phase), note_at)) return false;
  TileNote* note = gemm.note(tile_idx);
  simt::store(&note->phase, static_cast<uint32_t>(tile.phase));
  simt::store(&note->expert, num(tile.expert));
  simt::store(&note->n_block, tile.n_block);
  simt::store(&note->block, num(tile.block));
  simt::store(&note->num_rows, tile.num_rows);
  simt::store(&note->owner, static_cast<uint32_t>(owner));
  simt::store(&note->first_slot, at.slot);
  simt::store(&note->first_round, at.round);
  note_ring.publish(note_at, 0, tile_idx);
  return true;
}

/// All chunks of one tile, whose rows are there once `*flag` is watched.wanted. False: the ring has been stopped.
template <GemmConfig kConfig, class Flag>
MM_DEVICE sync::GoOn produce_tile(const GemmWorker<kConfig>& gemm, const flow::Tile& tile, uint32_t tile_idx,
                                  const Flag* flag, const sync::Watched& watched,
                                  typename GemmWorker<kConfig>::Cursor& at) {
  const auto ring = gemm.ring();
  store_source(gemm, tile);
  const uint32_t num_chunks = simt::load(&gemm.shared.source->num_chunks);
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const auto is_wanted = [&](Flag seen) { return seen == static_cast<Flag>(watched.wanted); };

  const uint32_t max_ahead = flow::min_of(num_chunks, kConfig.num_slots());
  uint32_t num_ahead = 0;  // chunks whose weights are under way
  auto ahead = at;
  while (num_ahead < max_ahead && !is_wanted(ptx::ld_acquire<ptx::Scope::gpu>(flag))) {
    if (!ring.wait_released(waiter, ahead)) {
      ring.stop(waiter, at, ahead);
      return false;
    }
    load_weights(gemm, num_ahead, ahead);
    ++num_ahead;
    ahead.advance();
  }
  if (!sync::wait_until<ptx::Scope::gpu>(waiter, flag, watched, is_wanted)) {
    ring.stop(waiter, at, ahead);
    return false;
  }
  for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) {
    if (chunk >= num_ahead) {
      if (!ring.wait_released(waiter, at)) {
        ring.stop(waiter, at, at);
        return false;
      }
      load_weights(gemm, chunk, at);
    }
    load_rows(gemm, tile_idx, chunk, at);
    at.advance();
  }
  return true;
}

/// Waits for whatever makes the tile's rows.
template <GemmConfig kConfig>
MM_DEVICE sync::GoOn produce_tile(const GemmWorker<kConfig>& gemm, const flow::Tile& tile, uint32_t tile_idx,
                                  typename GemmWorker<kConfig>::Cursor& at) {
  const Arguments& arguments = gemm.arguments();
  const uint32_t block = num(tile.block);
  if (is_gemm1<kConfig>(tile.phase)) {
    const uint32_t* arrived = arguments.own().template get<flow::Field::arrived>() + block;
    return produce_tile(gemm, tile, tile_idx, arrived, {flow::Field::arrived, block, tile.num_rows},
                        at);  // consume(arrived)
  }
  const uint64_t* done_mask = arguments.own().template get<flow::Field::done_mask>() + block;
  const uint64_t all_done = flow::full_mask(arguments.dims.gemm1_n_blocks());
  return produce_tile(gemm, tile, tile_idx, done_mask, {flow::Field::done_mask, block, all_done},
                      at);  // consume(done_mask)
}

/// Deals tiles to the math groups: those of few rows in turn.
template <GemmConfig kConfig>
class TileDealer {
 public:
  MM_DEVICE Owner next(const flow::Tile& tile) {
    if (kConfig.strategy == Strategy::small_batch && tile.num_rows <= kMaxSmallRows) return Owner::both;
    if (tile.num_rows > kGroupRows) return Owner::both;
    next_group_ = 1U - next_group_;
    return next_group_ == 0U ? Owner::first_group : Owner::second_group;
  }

 private:
  uint32_t next_group_ = 1;
};

/// One warp of the block. Ends when the walk does, or when a wait has failed; the rings tell the math groups.
template <GemmConfig kConfig>
MM_DEVICE void role_produce(const GemmWorker<kConfig>& gemm) {
  // The rules of src/flow look at the map without the layer: its words are this warp's own.
  const flow::PoolMap pool = load_pool_map(gemm);
  if (simt::lane_idx() != 0) return;
  // A kernel of one phase walks a single wave: all tiles of gemm1, then all of gemm2. Only the walk asks for waves.
  if constexpr (kConfig.phases != Phases::both) {
    simt::store(&gemm.shared.arguments->dims.experts_per_wave, pool.num_local);
  }
  const flow::Dims& dims = gemm.arguments().dims;
  uint64_t number = gemm.worker.worker_idx;
  if constexpr (kConfig.phases == Phases::gemm2) number += uint64_t{pool.num_blocks()} * dims.gemm1_n_blocks();
  flow::TileWalk walk(dims, pool);
  flow::Tile tile;
  TileDealer<kConfig> dealer;
  typename GemmWorker<kConfig>::Cursor at;
  uint32_t tile_idx = 0;
  for (; walk.find(number, tile); number += gemm.worker.num_workers) {
    if (kConfig.phases == Phases::gemm1 && tile.phase == flow::Phase::gemm2) break;
    if (!announce(gemm, tile, dealer.next(tile), tile_idx, at)) break;
    if (!produce_tile(gemm, tile, tile_idx++, at)) break;
  }
  gemm.note_ring().stop(gemm.waiter(flow::Phase::gemm2), gemm.note_cursor(tile_idx), gemm.note_cursor(tile_idx));
}

}  // namespace megamoe::sm90
