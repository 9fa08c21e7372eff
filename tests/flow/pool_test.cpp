// The pool's layout: every combination of small expert loads.

#include "flow/pool.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace megamoe::flow {
namespace {

/// Checks that blocks, rows and the lookup agree for one set of loads.
void expect_consistent(const std::vector<uint32_t>& rows, uint32_t block_m) {
  const auto num_local = static_cast<uint32_t>(rows.size());
  std::vector<uint32_t> first_block(num_local + 1);
  const PoolMap pool{rows.data(), first_block.data(), num_local, block_m};
  pool.build();
  uint32_t next_block = 0;
  for (uint32_t e = 0; e < num_local; ++e) {
    const LocalExpert expert{e};
    ASSERT_EQ(pool.num_m_blocks(expert), (rows[e] + block_m - 1) / block_m);
    uint32_t num_rows = 0;
    for (uint32_t m = 0; m < pool.num_m_blocks(expert); ++m, ++next_block) {
      const PoolBlock block = pool.block(expert, m);
      ASSERT_EQ(num(block), next_block);
      ASSERT_EQ(num(pool.first_row(block)), next_block * block_m);
      const BlockInfo info = pool.info(block);
      ASSERT_EQ(num(info.expert), e);
      ASSERT_EQ(info.m_block, m);
      ASSERT_EQ(info.num_rows, pool.valid_rows(expert, m));
      ASSERT_GE(info.num_rows, 1U);
      num_rows += info.num_rows;
    }
    ASSERT_EQ(num_rows, rows[e]);
  }
  ASSERT_EQ(pool.num_blocks(), next_block);
}

TEST(PoolMap, AllLoadsUpToFiveOfUpToFourExperts) {
  for (uint32_t num_local = 0; num_local <= 4; ++num_local) {
    uint32_t num_combinations = 1;
    for (uint32_t e = 0; e < num_local; ++e) num_combinations *= 6;
    for (uint32_t code = 0; code < num_combinations; ++code) {
      std::vector<uint32_t> rows(num_local);
      uint32_t rest = code;
      for (uint32_t& count : rows) {
        count = rest % 6;
        rest /= 6;
      }
      for (const uint32_t block_m : {1U, 2U, 4U}) expect_consistent(rows, block_m);
    }
  }
}

TEST(PoolMap, Case04_BoundariesInsideATile) {
  expect_consistent({128, 130, 65}, 64);
  expect_consistent({70, 0, 70}, 64);
}

TEST(Dims, WorstCaseFitsThePool) {
  Dims dims;
  dims.num_ranks = 3;
  dims.max_tokens = 7;
  dims.top_k = 5;
  dims.num_experts = 4;
  dims.num_shared = 1;
  for (const uint32_t block_m : {16U, 64U, 256U}) {
    dims.block_m = block_m;
    // All slots of all ranks on one expert, or spread so that every expert wastes all but one row of its last block.
    for (const uint32_t spread : {0U, 1U}) {
      std::vector<uint32_t> rows(dims.num_local_max(), spread);
      rows[0] = dims.max_tokens;
      rows[1] = dims.num_ranks * dims.max_tokens * dims.top_k - spread * (dims.num_local_max() - 2);
      uint64_t num_blocks = 0;
      for (const uint32_t count : rows) num_blocks += ceil_div(count, block_m);
      EXPECT_LE(num_blocks, dims.num_pool_blocks());
    }
    EXPECT_EQ(dims.num_pool_rows() % kPoolRowAlign, 0U);
    EXPECT_EQ(dims.num_pool_rows() % block_m, 0U);
  }
}

TEST(FullMask, SetsExactlyTheBlocksBits) {
  EXPECT_EQ(full_mask(1), 1U);
  EXPECT_EQ(full_mask(6), 63U);
  EXPECT_EQ(full_mask(63), ~uint64_t{0} >> 1);
  EXPECT_EQ(full_mask(64), ~uint64_t{0});
}

}  // namespace
}  // namespace megamoe::flow
