#pragma once

// The one walk over tiles, shared by every role and every backend.
//
// Wave by wave (a wave is experts_per_wave consecutive local experts): all gemm1 tiles of the wave, then all its gemm2
// tiles. Within an expert the m block runs fastest, so that neighbours in the walk share a weight tile.
//
// Deadlock freedom. All workers of all ranks are running. (1) Dispatch (stage_in .. pull) never waits for a tile: a
// worker pulls all its rows before it takes its first tile, so every row arrives. (2) Tiles are taken in walk order,
// and a worker finishes the tile it took before it takes the next. (3) A gemm1 tile waits only for rows, a gemm2 tile
// only for gemm1 tiles of its own pool block, which come earlier in the walk. So the earliest tile that was taken and
// is not finished never waits for anything unfinished but dispatch: it finishes, and by induction all do.

#include "flow/pool.hpp"

namespace megamoe::flow {

enum class Phase : uint32_t { gemm1, gemm2 };

/// One unit of scheduled work.
struct Tile {
  Phase phase = Phase::gemm1;
  LocalExpert expert{};
  uint32_t m_block = 0;  ///< among the expert's blocks
  uint32_t n_block = 0;
  PoolBlock block{};
  uint32_t num_rows = 0;  ///< valid rows of the block
};

/// Finds tiles by their number in the walk. Numbers must not decrease from one call to the next: the cursor only moves
/// forward, so that a worker's whole walk costs one pass over the experts. `dims` must outlive the walk.
class TileWalk {
 public:
  MM_HOST_DEVICE TileWalk(const Dims& dims, const PoolMap& pool) : dims_(dims), pool_(pool) {}

  /// False when the walk has no such tile.
  MM_HOST_DEVICE bool find(uint64_t number, Tile& tile) {
    while (wave_begin_ < pool_.num_local) {
      const uint64_t num_tiles = uint64_t{pool_.num_m_blocks(LocalExpert{expert_})} * num_n_blocks();
      if (number < first_number_ + num_tiles) {
        fill(static_cast<uint32_t>(number - first_number_), tile);
        return true;
      }
      first_number_ += num_tiles;
      advance();
    }
    return false;
  }

 private:
  MM_HOST_DEVICE uint32_t num_n_blocks() const {
    return phase_ == Phase::gemm1 ? dims_.gemm1_n_blocks() : dims_.gemm2_n_blocks();
  }
  MM_HOST_DEVICE uint32_t wave_end() const { return min_of(wave_begin_ + dims_.experts_per_wave, pool_.num_local); }

  /// To the next expert; past the wave's last one, to the wave's second phase or to the next wave.
  MM_HOST_DEVICE void advance() {
    if (++expert_ < wave_end()) return;
    if (phase_ == Phase::gemm2) wave_begin_ = wave_end();
    phase_ = phase_ == Phase::gemm1 ? Phase::gemm2 : Phase::gemm1;
    expert_ = wave_begin_;
  }

  MM_HOST_DEVICE void fill(uint32_t idx, Tile& tile) const {
    const uint32_t num_m_blocks = pool_.num_m_blocks(LocalExpert{expert_});
    tile.phase = phase_;
    tile.expert = LocalExpert{expert_};
    tile.m_block = idx % num_m_blocks;
    tile.n_block = idx / num_m_blocks;
    tile.block = pool_.block(tile.expert, tile.m_block);
    tile.num_rows = pool_.valid_rows(tile.expert, tile.m_block);
  }

  const Dims& dims_;
  PoolMap pool_;
  uint32_t wave_begin_ = 0;
  uint32_t expert_ = 0;
  Phase phase_ = Phase::gemm1;
  uint64_t first_number_ = 0;  ///< number of the current expert's first tile of the current phase
};

}  // namespace megamoe::flow
