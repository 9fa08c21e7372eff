#pragma once

// The producer: one thread walks the tiles of its block and brings their operands into the ring, a chunk of 128 columns
// of K to a slot. Weights do not wait for rows: they are under way while the rows of a block are still arriving.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/sm90/gemm_plan.hpp"
#include "cuda/sm90/pool_rows.hpp"

namespace megamoe::sm90 {

/// Where the chunks of a tile come from.
struct TileSource {
  const uint8_t* rows;      // [chunk][block_m, 128]
  const uint8_t* weights;   // [half][chunk][128, 128]
  const ScalePair* scales;  // [half][chunk]
  uint32_t num_halves;      ///< 1 in the last tile of an odd number of n tiles
  uint32_t num_chunks;
  uint32_t row_bytes;     ///< of the valid rows of one chunk; the others are never read
  uint32_t chunk_stride;  ///< between the chunks of `rows`
};

template <GemmConfig kConfig>
MM_DEVICE TileSource source_of(const Arguments& arguments, const flow::Tile& tile) {
  const GemmOperands operands = operands_of<kConfig>(arguments, tile.phase);
  const MatrixLayout& layout = operands.matrix.layout;
  const uint32_t chunk_stride = chunk_bytes(arguments.dims.block_m);
  const uint32_t n_tile = kTileHalves * tile.n_block;
  const uint64_t first_chunk = num(tile.expert) * layout.num_scales() + layout.chunk_idx(n_tile, 0);
  return {operands.rows + uint64_t{num(tile.block)} * layout.num_chunks * chunk_stride,
          operands.matrix.codes + first_chunk * chunk_bytes(kTileRows),
          operands.matrix.scales + first_chunk,
          flow::min_of(kTileHalves, layout.num_n_tiles - n_tile),
          layout.num_chunks,
          chunk_bytes(tile.num_rows),
          chunk_stride};
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
MM_DEVICE void load_weights(const GemmWorker<kConfig>& gemm, const TileSource& source, uint32_t chunk,
                            const typename GemmWorker<kConfig>::Cursor& at) {
  constexpr uint32_t kBytes = chunk_bytes(kTileRows);
  const auto ring = gemm.ring();
  constexpr uint32_t kScaleBytes = sizeof(ScalePair);
  ring.expect(at, source.num_halves * kBytes + kTileHalves * kScaleBytes);
  for (uint32_t half = 0; half < kTileHalves; ++half) {
    // Where the matrix ends with the tile's first half, nobody looks at the second one's products.
    const uint32_t real_half = flow::min_of(half, source.num_halves - 1U);
    const uint64_t chunk_idx = uint64_t{real_half} * source.num_chunks + chunk;
    ptx::bulk_load(gemm.shared.weight_scales(at.slot, half), source.scales + chunk_idx, kScaleBytes, ring.filled(at));
    if (half != real_half) continue;
    ptx::bulk_load(gemm.shared.weights(at.slot, half), source.weights + chunk_idx * kBytes, kBytes, ring.filled(at));
  }
}

/// The valid rows of chunk `chunk`; this completes the item, whose tag is its tile.
template <GemmConfig kConfig>
MM_DEVICE void load_rows(const GemmWorker<kConfig>& gemm, const TileSource& source, uint32_t tile_idx, uint32_t chunk,
                         const typename GemmWorker<kConfig>::Cursor& at) {
  const auto ring = gemm.ring();
  ring.publish(at, source.row_bytes, tile_idx);
  ptx::bulk_load(gemm.shared.activations(at.slot), source.rows + uint64_t{chunk} * source.chunk_stride,
                 source.row_bytes, ring.filled(at));
}

/// For the math groups to read once the tile's first chunk is there.
template <GemmConfig kConfig>
MM_DEVICE void store_note(const GemmWorker<kConfig>& gemm, const flow::Tile& tile, uint32_t tile_idx) {
  TileNote* note = gemm.shared.notes + tile_idx % kTileSlots;
  simt::store(&note->phase, static_cast<uint32_t>(tile.phase));
  simt::store(&note->expert, num(tile.expert));
  simt::store(&note->n_block, tile.n_block);
  simt::store(&note->block, num(tile.block));
  simt::store(&note->num_rows, tile.num_rows);
}

/// All chunks of one tile, whose rows are there once `*flag` is watched.wanted. False: the ring has been stopped.
template <GemmConfig kConfig, class Flag>
MM_DEVICE sync::GoOn produce_tile(const GemmWorker<kConfig>& gemm, const flow::Tile& tile, uint32_t tile_idx,
                                  const Flag* flag, const sync::Watched& watched,
                                  typename GemmWorker<kConfig>::Cursor& at) {
  const auto ring = gemm.ring();
  const TileSource source = source_of<kConfig>(gemm.arguments(), tile);
  const sync::Waiter waiter = gemm.waiter(tile.phase);
  const auto is_wanted = [&](Flag seen) { return seen == static_cast<Flag>(watched.wanted); };

  const uint32_t max_ahead = flow::min_of(source.num_chunks, GemmShared<kConfig>::kNumSlots);
  uint32_t num_ahead = 0;  // chunks whose weights are under way
  auto ahead = at;
  while (num_ahead < max_ahead && !is_wanted(ptx::ld_acquire<ptx::Scope::gpu>(flag))) {
    if (!ring.wait_released(waiter, ahead)) {
      ring.stop(waiter, at, ahead);
      return false;
    }
    load_weights(gemm, source, num_ahead, ahead);
    ++num_ahead;
    ahead.advance();
  }
  if (!sync::wait_until<ptx::Scope::gpu>(waiter, flag, watched, is_wanted)) {
    ring.stop(waiter, at, ahead);
    return false;
  }
  for (uint32_t chunk = 0; chunk < source.num_chunks; ++chunk) {
    if (chunk >= num_ahead) {
      if (!ring.wait_released(waiter, at)) {
        ring.stop(waiter, at, at);
        return false;
      }
      load_weights(gemm, source, chunk, at);
    }
    load_rows(gemm, source, tile_idx, chunk, at);
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

/// One warp of the block. Ends when the walk does, or when a wait has failed; the ring tells the math groups.
template <GemmConfig kConfig>
MM_DEVICE void role_produce(const GemmWorker<kConfig>& gemm) {
  // The rules of src/flow look at the map without the layer: its words are this warp's own.
  const flow::PoolMap pool = load_pool_map(gemm);
  if (simt::lane_idx() != 0) return;
  flow::Dims dims = gemm.arguments().dims;
  // What they are anyway, as constants.
  dims.gemm1_block_n = kGemm1BlockN;
  dims.gemm2_block_n = kGemm2BlockN;
  uint64_t number = gemm.worker.worker_idx;
  // A kernel of one phase walks a single wave: all tiles of gemm1, then all of gemm2.
  if constexpr (kConfig.phases != Phases::both) dims.experts_per_wave = pool.num_local;
  if constexpr (kConfig.phases == Phases::gemm2) number += uint64_t{pool.num_blocks()} * dims.gemm1_n_blocks();
  flow::TileWalk walk(dims, pool);
  flow::Tile tile;
  typename GemmWorker<kConfig>::Cursor at;
  uint32_t tile_idx = 0;
  for (; walk.find(number, tile); number += gemm.worker.num_workers) {
    if (kConfig.phases == Phases::gemm1 && tile.phase == flow::Phase::gemm2) break;
    store_note(gemm, tile, tile_idx);
    if (!produce_tile(gemm, tile, tile_idx++, at)) return;
  }
  gemm.ring().stop(gemm.waiter(flow::Phase::gemm2), at, at);
}

}  // namespace megamoe::sm90
