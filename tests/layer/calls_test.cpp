// A layer's life: calls of different size, counts that come back, no allocation, several layers of one group.

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

#include "layer_fixture.hpp"
#include "topology/topology.hpp"

namespace {
std::atomic<uint64_t> g_num_allocations = 0;
}  // namespace

// Counts every allocation of the process, workers included. Not inlined: GCC would take a malloc here and a delete
// there for a mismatch.
__attribute__((noinline)) void* operator new(size_t num_bytes) {
  ++g_num_allocations;
  if (void* memory = std::malloc(num_bytes)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace megamoe {
namespace {

constexpr LayerShape kShape{144, 128, 10, 2, 0};

Result<Layer> make(const TestLayer& layer, const Group& group) {
  return Layer::create(layer.config, SyntheticWeights(layer.weights), group);
}

TEST(Calls, RunAllocatesNothing) {
  TestLayer layer(kShape);
  layer.config.tuning.threads_per_rank = 2;
  for (const Pin pin : {Pin::none, Pin::core}) {
    SCOPED_TRACE(to_string(pin));
    layer.config.tuning.pin = pin;
    auto group = Group::threads(3);
    auto moe = make(layer, *group);
    ASSERT_TRUE(moe.ok()) << moe.status().to_string();
    const SyntheticBatch batch(layer.input, 40);
    const std::vector<RankInput> inputs = batch.split({20, 0, 20});
    std::vector<Bf16> y(40 * kShape.hidden);
    const std::vector<RankOutput> outputs = outputs_over(y, inputs, kShape.hidden);
    const uint64_t before = g_num_allocations;
    bool ok = true;
    for (int call = 0; call < 5; ++call) ok = moe->run(inputs, outputs).ok() && ok;
    EXPECT_EQ(g_num_allocations - before, 0U);
    EXPECT_TRUE(ok);
  }
}

TEST(Calls, CallersThreadKeepsItsAffinityMask) {
  TestLayer layer(kShape);
  layer.config.tuning.pin = Pin::core;
  const SyntheticBatch batch(layer.input, 5);
  const topology::CpuList before = topology::affinity_mask();
  EXPECT_FALSE(run_over(layer, batch, {2, 3}).empty());
  EXPECT_EQ(topology::affinity_mask(), before);
}

TEST(Calls, LayersOfOneGroupMayPinDifferently) {
  TestLayer layer(kShape);
  layer.config.tuning.threads_per_rank = 2;
  const SyntheticBatch batch(layer.input, 24);
  const std::vector<Bf16> expected = run_over(layer, batch, {12, 12});
  auto group = Group::threads(2);
  std::vector<Layer> layers;
  for (const Pin pin : {Pin::core, Pin::none, Pin::node}) {
    layer.config.tuning.pin = pin;
    auto moe = make(layer, *group);
    ASSERT_TRUE(moe.ok()) << moe.status().to_string();
    layers.push_back(*std::move(moe));
  }
  const std::vector<RankInput> inputs = batch.split({12, 12});
  for (int call = 0; call < 2; ++call) {
    for (Layer& moe : layers) {
      std::vector<Bf16> y(24 * kShape.hidden);
      ASSERT_TRUE(moe.run(inputs, outputs_over(y, inputs, kShape.hidden)).ok());
      EXPECT_TRUE(y == expected) << to_string(moe.plan().pin);
    }
  }
}

TEST(Calls, Case24_DifferentSizesOnOneWorkspace) {
  TestLayer layer(kShape);
  layer.config.max_tokens_per_rank = 244;
  auto group = Group::threads(2);
  auto moe = make(layer, *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  for (const uint32_t num_tokens : {244U, 1U, 64U, 0U, 33U}) {
    SCOPED_TRACE(num_tokens);
    layer.input.seed = num_tokens + 1;
    const SyntheticBatch batch(layer.input, num_tokens);
    const std::vector<RankInput> inputs = batch.split({num_tokens, 0});
    std::vector<Bf16> y(size_t{num_tokens} * kShape.hidden);
    ASSERT_TRUE(moe->run(inputs, outputs_over(y, inputs, kShape.hidden)).ok());
    EXPECT_TRUE(y == run_over(layer, batch, {num_tokens}));
  }
}

TEST(Calls, Case25_ZeroTokensThenANormalCall) {
  const TestLayer layer(kShape);
  auto group = Group::threads(4);
  auto moe = make(layer, *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  const SyntheticBatch batch(layer.input, 384);
  const std::vector<Bf16> expected = [&] {
    TestLayer wide = layer;
    wide.config.max_tokens_per_rank = 384;
    return run_over(wide, batch, {384});
  }();
  for (const std::vector<uint32_t>& split : {std::vector<uint32_t>{0, 0, 0, 0}, {0, 128, 128, 128}}) {
    const std::vector<RankInput> inputs = batch.split(split[1] == 0 ? std::vector<uint32_t>{0, 0, 0, 0} : split);
    const uint32_t num_tokens = std::accumulate(split.begin(), split.end(), 0U);
    std::vector<Bf16> y(size_t{num_tokens} * kShape.hidden);
    ASSERT_TRUE(moe->run(inputs, outputs_over(y, inputs, kShape.hidden)).ok());
    if (num_tokens != 0) {
      EXPECT_TRUE(y == expected);
    }
  }
}

TEST(Calls, Case30_LoadCountsOfAnUnevenSplit) {
  TestLayer layer({64, 64, 30, 3, 1});
  auto group = Group::threads(8);
  auto moe = make(layer, *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  const SyntheticBatch batch(layer.input, 50);
  const std::vector<RankInput> inputs = batch.split(even_split(50, 8));
  std::vector<Bf16> y(50 * 64);
  std::vector<RankOutput> outputs = outputs_over(y, inputs, 64);
  std::vector<uint32_t> rows(30, 777);
  for (uint32_t r = 0; r < 8; ++r) {
    outputs[r].local_expert_rows = std::span<uint32_t>(rows).subspan(moe->first_expert(r), moe->num_local_experts(r));
  }
  ASSERT_TRUE(moe->run(inputs, outputs).ok());
  std::vector<uint32_t> expected(30, 0);
  for (uint32_t slot = 0; slot < 150; ++slot) ++expected[static_cast<size_t>(batch.id(slot))];
  EXPECT_EQ(rows, expected);
  uint32_t num_received = 0;
  for (const RankStats& stats : moe->stats()) num_received += stats.num_rows_received;
  EXPECT_EQ(num_received, 150U);
}

TEST(Calls, LayersOfOneShapeShareAWorkspace) {
  TestLayer first(kShape);
  TestLayer second(kShape);
  second.weights.seed = 99;
  auto group = Group::threads(2);
  auto a = make(first, *group);
  auto b = make(second, *group);
  ASSERT_TRUE(a.ok() && b.ok());
  const SyntheticBatch batch(first.input, 60);
  const std::vector<Bf16> expected_a = run_over(first, batch, {60});
  const std::vector<Bf16> expected_b = run_over(second, batch, {60});
  EXPECT_FALSE(expected_a == expected_b);
  for (int round = 0; round < 3; ++round) {
    for (const auto& [layer, expected] : {std::pair{&*a, &expected_a}, std::pair{&*b, &expected_b}}) {
      const std::vector<RankInput> inputs = batch.split({30, 30});
      std::vector<Bf16> y(60 * kShape.hidden);
      ASSERT_TRUE(layer->run(inputs, outputs_over(y, inputs, kShape.hidden)).ok());
      EXPECT_TRUE(y == *expected);
    }
  }
}

TEST(Calls, CallsFromTwoThreadsRunOneAfterTheOther) {
  const TestLayer layer(kShape);
  auto group = Group::threads(2);
  auto moe = make(layer, *group);
  ASSERT_TRUE(moe.ok());
  const SyntheticBatch batch(layer.input, 30);
  const std::vector<Bf16> expected = run_over(layer, batch, {30});
  std::atomic<int> num_right = 0;
  const auto call = [&] {
    for (int i = 0; i < 5; ++i) {
      const std::vector<RankInput> inputs = batch.split({10, 20});
      std::vector<Bf16> y(30 * kShape.hidden);
      if (moe->run(inputs, outputs_over(y, inputs, kShape.hidden)).ok() && y == expected) ++num_right;
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(num_right, 10);
}

TEST(Calls, Case40_MoreThreadsThanExperts) {
  TestLayer layer({64, 128, 2, 1, 0});
  layer.config.tuning.threads_per_rank = 9;
  const SyntheticBatch batch(layer.input, 70);
  const std::vector<Bf16> many = run_over(layer, batch, {70});
  layer.config.tuning.threads_per_rank = 1;
  EXPECT_TRUE(many == run_over(layer, batch, {70}));
}

TEST(Calls, StatsAndDumpTellWhatHappened) {
  const TestLayer layer(kShape);
  auto group = Group::threads(2);
  auto moe = make(layer, *group);
  ASSERT_TRUE(moe.ok());
  EXPECT_TRUE(moe->stats().empty());
  const SyntheticBatch batch(layer.input, 64);
  const std::vector<RankInput> inputs = batch.split({32, 32});
  std::vector<Bf16> y(64 * kShape.hidden);
  ASSERT_TRUE(moe->run(inputs, outputs_over(y, inputs, kShape.hidden)).ok());
  ASSERT_EQ(moe->stats().size(), 2U);
  for (const RankStats& stats : moe->stats()) {
    EXPECT_GT(stats.busy_seconds[static_cast<size_t>(Stage::gemm1)], 0.0);
    EXPECT_GT(stats.wall_seconds, 0.0);
    for (const double seconds : stats.busy_seconds) EXPECT_GE(seconds, -1e-6);
  }
  const std::string dump = moe->dump_workspace(0);
  for (const PlanBuffer& buffer : moe->plan().buffers) EXPECT_NE(dump.find(buffer.name), std::string::npos);
  EXPECT_TRUE(moe->dump_workspace(7).empty());
}

}  // namespace
}  // namespace megamoe
