// One result, bit for bit: over ranks, threads, batch splits and tile sizes, for every weight format.

#include "layer_fixture.hpp"

namespace megamoe {
namespace {

constexpr LayerShape kShape{208, 272, 12, 3, 1};
constexpr uint32_t kNumTokens = 101;

class BitIdentity : public testing::TestWithParam<WeightFormat> {
 protected:
  BitIdentity() : layer_(kShape, GetParam()), batch_(layer_.input, kNumTokens) {
    layer_.config.tuning.threads_per_rank = 1;
    expected_ = run_over(layer_, batch_, {kNumTokens});
  }

  void expect_same(const TestLayer& layer, const std::vector<uint32_t>& split) {
    ASSERT_FALSE(expected_.empty());
    EXPECT_TRUE(run_over(layer, batch_, split) == expected_);
  }

  TestLayer layer_;
  SyntheticBatch batch_;
  std::vector<Bf16> expected_;
};

TEST_P(BitIdentity, OverRanks) {
  for (const uint32_t num_ranks : {2U, 3U, 4U, 8U}) {
    SCOPED_TRACE(num_ranks);
    expect_same(layer_, even_split(kNumTokens, num_ranks));
  }
}

TEST_P(BitIdentity, OverUnevenTokensPerRank) {
  expect_same(layer_, {0, kNumTokens});
  expect_same(layer_, {1, 0, kNumTokens - 1, 0});
}

TEST_P(BitIdentity, OverThreads) {
  for (const uint32_t threads : {2U, 3U, 5U, 8U}) {
    SCOPED_TRACE(threads);
    TestLayer layer = layer_;
    layer.config.tuning.threads_per_rank = threads;
    expect_same(layer, {kNumTokens});
    expect_same(layer, even_split(kNumTokens, 3));
  }
}

TEST_P(BitIdentity, OverTileSizes) {
  for (const uint32_t block_m : {16U, 32U, 64U, 128U, 256U}) {
    for (const uint32_t gemm1_block_n : {128U, 256U, 384U}) {
      SCOPED_TRACE(testing::Message() << block_m << " " << gemm1_block_n);
      TestLayer layer = layer_;
      layer.config.tuning.block_m = block_m;
      layer.config.tuning.gemm1_block_n = gemm1_block_n;
      layer.config.tuning.gemm2_block_n = block_m == 32 ? 208 : block_m;
      layer.config.tuning.threads_per_rank = 2;
      expect_same(layer, {kNumTokens});
    }
  }
}

TEST_P(BitIdentity, OverWaves) {
  for (const uint32_t experts_per_wave : {1U, 2U, 5U, 13U}) {
    SCOPED_TRACE(experts_per_wave);
    TestLayer layer = layer_;
    layer.config.tuning.experts_per_wave = experts_per_wave;
    layer.config.tuning.threads_per_rank = 3;
    expect_same(layer, even_split(kNumTokens, 2));
  }
}

TEST_P(BitIdentity, OverPins) {
  for (const Pin pin : {Pin::automatic, Pin::none, Pin::node, Pin::core}) {
    SCOPED_TRACE(to_string(pin));
    TestLayer layer = layer_;
    layer.config.tuning.pin = pin;
    layer.config.tuning.threads_per_rank = 3;
    expect_same(layer, {kNumTokens});
    expect_same(layer, even_split(kNumTokens, 4));
  }
}

TEST_P(BitIdentity, OverABatchSplitInTwo) {
  ASSERT_FALSE(expected_.empty());
  auto group = Group::threads(2);
  auto moe = Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  std::vector<Bf16> y(expected_.size());
  for (const auto& [first, count] : {std::pair{0U, 37U}, std::pair{37U, 64U}}) {
    const std::vector<RankInput> inputs = {batch_.slice(first, count / 2),
                                           batch_.slice(first + count / 2, count - count / 2)};
    std::vector<Bf16> part(size_t{count} * kShape.hidden);
    ASSERT_TRUE(moe->run(inputs, outputs_over(part, inputs, kShape.hidden)).ok());
    std::copy(part.begin(), part.end(), y.begin() + size_t{first} * kShape.hidden);
  }
  EXPECT_TRUE(y == expected_);
}

INSTANTIATE_TEST_SUITE_P(Formats, BitIdentity,
                         testing::Values(WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16),
                         [](const auto& format) { return std::string(to_string(format.param)); });

/// Instruction sets of this machine, each run as the forced one.
std::vector<Isa> runnable_isas(TestLayer& layer) {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16}) {
    layer.config.tuning.isa = isa;
    const auto plan = megamoe::plan(layer.config, 1);
    if (plan) {
      EXPECT_EQ(plan->isa, isa);  // the forced one is the one that runs
      isas.push_back(isa);
    } else {
      EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
    }
  }
  return isas;
}

TEST(BitIdentityOverIsas, ThoseThatAddOneProductAtATime) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    TestLayer layer(kShape, format);
    const SyntheticBatch batch(layer.input, kNumTokens);
    const std::vector<Isa> isas = runnable_isas(layer);
    layer.config.tuning.isa = Isa::scalar;
    const std::vector<Bf16> expected = run_over(layer, batch, {kNumTokens});
    for (const Isa isa : isas) {
      if (isa == Isa::avx512_bf16 || isa == Isa::amx_bf16) continue;
      layer.config.tuning.isa = isa;
      EXPECT_TRUE(run_over(layer, batch, {kNumTokens}) == expected) << to_string(isa);
    }
  }
}

TEST(BitIdentityOverIsas, EachWithItselfOverRanksAndBatches) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    TestLayer layer(kShape, format);
    const SyntheticBatch batch(layer.input, kNumTokens);
    for (const Isa isa : runnable_isas(layer)) {
      layer.config.tuning.isa = isa;
      const std::vector<Bf16> expected = run_over(layer, batch, {kNumTokens});
      // Fewer rows per call and block take other paths through the kernels.
      EXPECT_TRUE(run_over(layer, batch, {3, kNumTokens - 4, 1}) == expected) << to_string(isa);
      TestLayer small_blocks = layer;
      small_blocks.config.tuning.block_m = 16;
      EXPECT_TRUE(run_over(small_blocks, batch, {kNumTokens}) == expected) << to_string(isa);
    }
  }
}

}  // namespace
}  // namespace megamoe
