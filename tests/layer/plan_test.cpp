// The plan's bytes are the allocator's bytes.

#include <thread>

#include "check/shapes.hpp"
#include "host/group.hpp"
#include "host/plan.hpp"
#include "layer_fixture.hpp"
#include "topology/topology.hpp"

namespace megamoe {
namespace {

TEST(Plan, V4ProOfEightRanksAgreesWithTheAllocatorToTheByte) {
  LayerConfig config;
  config.shape = {7168, 3072, 384, 6, 0};
  config.max_tokens_per_rank = 8192;
  const auto plan = megamoe::plan(config, 8);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  // Pages are not touched, so that 40 GB of addresses cost no memory.
  const auto group = internal::make_thread_group(8);
  auto memory = group->allocate(plan->workspace_bytes);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ((*memory)->allocated_bytes(), 8 * plan->workspace_bytes);
  uint64_t end = 0;
  for (const PlanBuffer& buffer : plan->buffers) {
    EXPECT_GE(buffer.offset, end) << buffer.name;
    end = buffer.offset + buffer.bytes;
  }
  EXPECT_LE(end, plan->workspace_bytes);
  EXPECT_LT(plan->workspace_bytes - end, 8192U);
  // The last byte of every rank's workspace is there.
  for (std::byte* base : (*memory)->bases()) base[plan->workspace_bytes - 1] = std::byte{1};
}

TEST(Plan, LayerHoldsWhatThePlanSays) {
  TestLayer layer({272, 144, 9, 3, 1});
  layer.config.tuning.threads_per_rank = 3;
  auto group = Group::threads(4);
  auto moe = Layer::create(layer.config, SyntheticWeights(layer.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  EXPECT_EQ(moe->allocated_workspace_bytes(), 4 * moe->plan().workspace_bytes);
  EXPECT_EQ(moe->allocated_scratch_bytes(), 4 * moe->plan().scratch_bytes);
  const auto plan = megamoe::plan(layer.config, 4);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->workspace_bytes, moe->plan().workspace_bytes);
  EXPECT_EQ(plan->scratch_bytes, moe->plan().scratch_bytes);
}

TEST(Plan, WideIntermediatesStillFitTheMask) {
  LayerConfig config;
  config.shape = {4096, 14336, 8, 2, 0};
  config.max_tokens_per_rank = 16;
  const auto plan = megamoe::plan(config, 2);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->gemm1_block_n, 256U);
  EXPECT_LE((14336 + plan->gemm1_block_n - 1) / plan->gemm1_block_n, 64U);
}

TEST(Plan, TuningIsTakenAsGiven) {
  LayerConfig config;
  config.shape = {256, 512, 8, 2, 0};
  config.max_tokens_per_rank = 16;
  config.tuning = {.threads_per_rank = 5,
                   .block_m = 32,
                   .gemm1_block_n = 256,
                   .gemm2_block_n = 48,
                   .experts_per_wave = 3,
                   .isa = Isa::scalar,
                   .pin = Pin::core};
  const auto plan = megamoe::plan(config, 2);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->threads_per_rank, 5U);
  EXPECT_EQ(plan->block_m, 32U);
  EXPECT_EQ(plan->gemm1_block_n, 256U);
  EXPECT_EQ(plan->gemm2_block_n, 48U);
  EXPECT_EQ(plan->experts_per_wave, 3U);
  EXPECT_EQ(plan->isa, Isa::scalar);
  EXPECT_EQ(plan->pin, Pin::core);
}

TEST(Plan, RanksMustAgreeOnTheOrderOfAdditions) {
  LayerConfig config;
  config.shape = {256, 512, 8, 2, 0};
  config.max_tokens_per_rank = 16;
  config.tuning.isa = Isa::scalar;
  const auto scalar = internal::make_plan(config, 2);
  ASSERT_TRUE(scalar.ok()) << scalar.status().to_string();
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16}) {
    config.tuning.isa = isa;
    const auto plan = internal::make_plan(config, 2);
    if (!plan) continue;  // not on this CPU
    const bool adds_like_scalar = isa == Isa::avx2 || isa == Isa::avx512;
    EXPECT_EQ(internal::agreement(*plan) == internal::agreement(*scalar), adds_like_scalar) << to_string(isa);
  }
}

TEST(Plan, ThreadsFollowTheAffinityMask) {
  LayerConfig config;
  config.shape = {256, 512, 8, 2, 0};
  config.max_tokens_per_rank = 16;
  const topology::CpuList mask = topology::affinity_mask();
  const auto whole = megamoe::plan(config, 1);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_LE(whole->threads_per_rank, mask.size());
  EXPECT_NE(whole->pin, Pin::automatic);
  std::thread([&] {
    ASSERT_TRUE(topology::CpuMask::of({mask.back()}).apply());
    const auto plan = megamoe::plan(config, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->threads_per_rank, 1U);
    // What the caller asked for stands, whatever there is.
    config.tuning.threads_per_rank = 7;
    EXPECT_EQ(megamoe::plan(config, 1)->threads_per_rank, 7U);
  }).join();
}

}  // namespace
}  // namespace megamoe
