// The tile walk: complete, without repetition, and with every dependency earlier in the walk.

#include "flow/schedule.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace megamoe::flow {
namespace {

struct Loads {
  std::vector<uint32_t> rows;
  std::vector<uint32_t> first_block;
  PoolMap map(uint32_t block_m) {
    first_block.resize(rows.size() + 1);
    const PoolMap pool{rows.data(), first_block.data(), static_cast<uint32_t>(rows.size()), block_m};
    pool.build();
    return pool;
  }
};

Dims small_dims(uint32_t experts_per_wave) {
  Dims dims;
  dims.hidden = 48;
  dims.intermediate = 256;
  dims.block_m = 4;
  dims.gemm1_block_n = 128;  // 2 n blocks
  dims.gemm2_block_n = 16;   // 3 n blocks
  dims.experts_per_wave = experts_per_wave;
  return dims;
}

std::vector<Tile> whole_walk(const Dims& dims, const PoolMap& pool) {
  std::vector<Tile> tiles;
  TileWalk walk(dims, pool);
  Tile tile;
  while (walk.find(tiles.size(), tile)) tiles.push_back(tile);
  return tiles;
}

/// Complete, unique, dependencies first, waves in order.
void expect_sound(const std::vector<uint32_t>& rows, uint32_t experts_per_wave) {
  const Dims dims = small_dims(experts_per_wave);
  Loads loads{rows, {}};
  const PoolMap pool = loads.map(dims.block_m);
  const std::vector<Tile> tiles = whole_walk(dims, pool);
  ASSERT_EQ(tiles.size(), pool.num_blocks() * (dims.gemm1_n_blocks() + dims.gemm2_n_blocks()));
  std::set<std::tuple<Phase, uint32_t, uint32_t>> seen;
  std::map<uint32_t, uint32_t> num_gemm1_done;
  uint32_t wave = 0;
  for (const Tile& tile : tiles) {
    ASSERT_TRUE(seen.emplace(tile.phase, num(tile.block), tile.n_block).second);
    ASSERT_EQ(num(tile.block), num(pool.block(tile.expert, tile.m_block)));
    ASSERT_EQ(tile.num_rows, pool.valid_rows(tile.expert, tile.m_block));
    ASSERT_GE(num(tile.expert) / experts_per_wave, wave);
    wave = num(tile.expert) / experts_per_wave;
    if (tile.phase == Phase::gemm1) {
      ++num_gemm1_done[num(tile.block)];
    } else {
      ASSERT_EQ(num_gemm1_done[num(tile.block)], dims.gemm1_n_blocks());
    }
  }
}

TEST(TileWalk, AllLoadsOfFourExpertsAndAllWaves) {
  const uint32_t choices[4] = {0, 1, 4, 9};
  for (uint32_t code = 0; code < 256; ++code) {
    const std::vector<uint32_t> rows = {choices[code & 3], choices[(code >> 2) & 3], choices[(code >> 4) & 3],
                                        choices[(code >> 6) & 3]};
    for (const uint32_t wave : {1U, 2U, 3U, 4U, 9U}) expect_sound(rows, wave);
  }
}

TEST(TileWalk, EmptyPoolHasNoTiles) {
  expect_sound({}, 1);
  expect_sound({0, 0, 0}, 2);
}

TEST(TileWalk, EveryStrideOfWorkersVisitsTheSameTiles) {
  const Dims dims = small_dims(2);
  Loads loads{{9, 0, 3, 17, 4}, {}};
  const PoolMap pool = loads.map(dims.block_m);
  const std::vector<Tile> all = whole_walk(dims, pool);
  for (uint32_t workers = 1; workers <= 7; ++workers) {
    for (uint32_t w = 0; w < workers; ++w) {
      TileWalk walk(dims, pool);
      Tile tile;
      size_t number = w;
      for (; walk.find(number, tile); number += workers) {
        ASSERT_EQ(num(tile.block), num(all[number].block));
        ASSERT_EQ(tile.n_block, all[number].n_block);
        ASSERT_EQ(tile.phase, all[number].phase);
      }
      ASSERT_GE(number, all.size());
    }
  }
}

TEST(TileWalk, NeighboursShareAWeightTile) {
  const Dims dims = small_dims(1);
  Loads loads{{12}, {}};
  const std::vector<Tile> tiles = whole_walk(dims, loads.map(dims.block_m));
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tiles[i].n_block, 0U);
    EXPECT_EQ(tiles[i].m_block, i);
  }
}

}  // namespace
}  // namespace megamoe::flow
