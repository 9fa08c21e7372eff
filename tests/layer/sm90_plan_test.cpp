// The plan of the Hopper backend, which needs no GPU.

#include "bad_input.hpp"
#include "host/sm90_backend.hpp"
#include "host/sm90_staging.hpp"
#include "layer_fixture.hpp"

namespace megamoe {
namespace {

using internal::HopperGpus;
using internal::make_sm90_plan;

LayerConfig small_config() {
  LayerConfig config;
  config.shape = {256, 512, 8, 2, 0};
  config.max_tokens_per_rank = 16;
  return config;
}

TEST(Sm90Plan, DealsRanksOutToGpus) {
  struct Deal {
    HopperGpus gpus;
    uint32_t num_ranks;
    uint32_t ranks_per_gpu;
    uint32_t blocks_per_rank;
  };
  for (const Deal& deal : {Deal{{1, 132}, 1, 1, 132}, Deal{{1, 132}, 8, 8, 16}, Deal{{4, 132}, 2, 1, 132},
                           Deal{{4, 114}, 6, 2, 57}, Deal{{2, 132}, 3, 2, 66}}) {
    const auto plan = make_sm90_plan(small_config(), deal.num_ranks, deal.gpus);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->ranks_per_gpu, deal.ranks_per_gpu);
    EXPECT_EQ(plan->blocks_per_rank, deal.blocks_per_rank);
  }
}

TEST(Sm90Plan, RefusesWhatTheKernelsCannotTake) {
  struct Refusal {
    std::function<void(LayerConfig&)> spoil;
    Wanted wanted;
  };
  const std::vector<Refusal> refusals = {
      {[](auto& c) { c.tuning.block_m = 64; }, {"block_m must be 128 on sm90", "(got 64)", "use 0"}},
      {[](auto& c) { c.tuning.gemm1_block_n = 256; }, {"gemm1_block_n must be 128 on sm90", "(got 256)", "use 0"}},
      {[](auto& c) { c.tuning.gemm2_block_n = 128; }, {"gemm2_block_n must be 256 on sm90", "(got 128)", "use 0"}},
      {[](auto& c) { c.tuning.threads_per_rank = 2; }, {"threads_per_rank must be 0", "(got 2)", "cpu backend"}},
      {[](auto& c) { c.tuning.isa = Isa::avx2; }, {"isa must be auto on sm90", "(got avx2)", "cpu backend"}},
      {[](auto& c) { c.tuning.pin = Pin::core; }, {"pin must be auto on sm90", "(got core)", "cpu backend"}},
      {[](auto& c) { c.shape.intermediate = 8208; }, {"intermediate must be at most 8192", "(got 8208)", "narrower"}},
  };
  for (const Refusal& refusal : refusals) {
    LayerConfig config = small_config();
    refusal.spoil(config);
    expect_refused(make_sm90_plan(config, 1, {1, 132}).status(), StatusCode::unsupported, refusal.wanted);
  }
  expect_refused(make_sm90_plan(small_config(), 17, {2, 132}).status(), StatusCode::unsupported,
                 {"the 2 Hopper GPUs must play all ranks, at most 8 each", "(got 17)", "fewer ranks"});
}

TEST(Sm90Plan, StrategyIsTheOneAskedForOrFollowsTheMeanRows) {
  using internal::choose_strategy;
  EXPECT_EQ(choose_strategy(Strategy::automatic, 0, 8), Strategy::small_batch);
  EXPECT_EQ(choose_strategy(Strategy::automatic, 8 * internal::kMaxSmallBatchMean, 8), Strategy::small_batch);
  EXPECT_EQ(choose_strategy(Strategy::automatic, 8 * internal::kMaxSmallBatchMean + 1, 8), Strategy::cooperative);
  for (const Strategy forced : {Strategy::cooperative, Strategy::pingpong, Strategy::small_batch}) {
    EXPECT_EQ(choose_strategy(forced, 1, 8), forced);
    EXPECT_EQ(internal::strategy_rule(forced).find(to_string(forced)), 0U);
  }
  using internal::choose_fusion;
  EXPECT_EQ(choose_fusion(Fusion::gemms, 8 * internal::kMaxMergedMean, 8), Fusion::gemms);
  EXPECT_EQ(choose_fusion(Fusion::gemms, 8 * internal::kMaxMergedMean + 1, 8), Fusion::chain);
  EXPECT_EQ(choose_fusion(Fusion::chain, 0, 8), Fusion::chain);
  EXPECT_NE(internal::strategy_rule(Strategy::automatic).find("at most 16 rows"), std::string::npos);
}

TEST(Sm90Plan, StagingHoldsEveryInputAndOutput) {
  flow::Dims dims;
  dims.hidden = 144;
  dims.max_tokens = 5;
  dims.top_k = 3;
  dims.num_experts = 7;
  dims.num_ranks = 2;
  constexpr auto kRoom = [](uint64_t begin, uint64_t end, uint64_t bytes) { return begin + bytes <= end; };
  const auto staging = internal::Sm90Staging::of(dims);
  EXPECT_TRUE(kRoom(staging.x, staging.x_scale, 5 * 144 * 2));
  EXPECT_TRUE(kRoom(staging.x_scale, staging.topk_ids, 5 * 2 * 4));
  EXPECT_TRUE(kRoom(staging.topk_ids, staging.topk_weights, 5 * 3 * 8));
  EXPECT_TRUE(kRoom(staging.topk_weights, staging.y, 5 * 3 * 4));
  EXPECT_TRUE(kRoom(staging.y, staging.local_expert_rows, 5 * 144 * 2));
  EXPECT_TRUE(kRoom(staging.local_expert_rows, staging.num_bytes, 4 * 4));
  for (const uint64_t offset : {staging.x, staging.x_scale, staging.topk_ids, staging.topk_weights, staging.y}) {
    EXPECT_EQ(offset % 16, 0U);
  }
}

TEST(Sm90Plan, WhatIsMissingIsSaid) {
  for (const Backend backend : {Backend::sm90, Backend::chain}) {
    LayerConfig config = small_config();
    config.backend = backend;
    const auto plan = megamoe::plan(config, 2);
    const auto gpus = internal::find_hopper_gpus();
    ASSERT_EQ(plan.ok(), gpus.ok());
    if (!plan) {
      EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
      EXPECT_EQ(plan.status().message(), gpus.status().message());
      EXPECT_NE(plan.status().message().find(" must "), std::string::npos) << plan.status().message();
      continue;
    }
    EXPECT_EQ(plan->backend, backend);
    EXPECT_EQ(plan->block_m, internal::kSm90BlockM);
    EXPECT_GE(plan->threads_per_rank, 1U);
  }
}

}  // namespace
}  // namespace megamoe
