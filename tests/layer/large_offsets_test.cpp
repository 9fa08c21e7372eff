// Case 22: pool rows times hidden just over 2^31, all rows to one rank. A 32-bit offset anywhere would show in the last
// row.

#include "layer_fixture.hpp"

namespace megamoe {
namespace {

TEST(LargeOffsets, Case22_LastRowOfAPoolBeyondTwoToThe31) {
  TestLayer layer({7168, 16, 2, 32, 0});
  constexpr uint32_t kNumTokens = 9363;  // 9363 * 32 * 7168 = 2^31 + 183,296
  static_assert(uint64_t{kNumTokens} * 32 * 7168 > uint64_t{1} << 31);
  layer.config.max_tokens_per_rank = kNumTokens;
  layer.config.tuning.block_m = 128;
  layer.input.routing.kind = RoutingKind::one_expert;
  const SyntheticBatch batch(layer.input, kNumTokens);
  const std::vector<Bf16> y = run_over(layer, batch, {kNumTokens});
  ASSERT_EQ(y.size(), size_t{kNumTokens} * 7168);

  // The same tokens in a small call.
  layer.config.max_tokens_per_rank = 8;
  auto group = Group::threads(1);
  auto moe = Layer::create(layer.config, SyntheticWeights(layer.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  for (const uint32_t first : {0U, kNumTokens / 2, kNumTokens - 8}) {
    std::vector<Bf16> few(size_t{8} * 7168);
    const std::vector<RankInput> inputs = {batch.slice(first, 8)};
    ASSERT_TRUE(moe->run(inputs, outputs_over(few, inputs, 7168)).ok());
    EXPECT_TRUE(std::equal(few.begin(), few.end(), y.begin() + size_t{first} * 7168)) << "token " << first;
  }
}

}  // namespace
}  // namespace megamoe
