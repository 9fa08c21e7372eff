// The Hopper layer through the public API, on whatever Hopper GPUs there are; without one there is nothing to test.

#include <numeric>

#include "bad_input.hpp"
#include "cuda/host/runtime.hpp"
#include "layer_fixture.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kHidden = 272;

class Sm90Layer : public testing::Test {
 protected:
  void SetUp() override {
    const auto gpus = cuda::hopper_devices();
    if (!gpus) GTEST_SKIP() << gpus.status().to_string();
    layer_.config.backend = Backend::sm90;
  }

  TestLayer layer_{{kHidden, 144, 9, 3, 1}};
};

/// One rank's input and output, copied to the first Hopper GPU, `misalignment` bytes behind a multiple of 256.
class DeviceCall {
 public:
  DeviceCall(const RankInput& input, uint32_t num_experts, uint32_t misalignment) : misalignment_(misalignment) {
    const auto gpus = cuda::hopper_devices();
    memory_ = *cuda::DeviceMemory::allocate(gpus->front().ordinal, uint64_t{1} << 20);
    input_.num_tokens = input.num_tokens;
    input_.x = copied(std::get<std::span<const Bf16>>(input.x));
    input_.topk_ids = copied(std::get<std::span<const int32_t>>(input.topk_ids));
    input_.topk_weights = copied(input.topk_weights);
    output_.y = taken<Bf16>(size_t{input.num_tokens} * kHidden);
    output_.local_expert_rows = taken<uint32_t>(num_experts);
  }

  Status run(Layer& layer) const { return layer.run(std::span(&input_, 1), std::span(&output_, 1)); }
  std::vector<Bf16> y() const { return to_host<Bf16>(output_.y); }
  std::vector<uint32_t> rows() const { return to_host<uint32_t>(output_.local_expert_rows); }

 private:
  template <class T>
  std::span<T> taken(size_t count) {
    end_ = (end_ + 255) / 256 * 256 + misalignment_;
    const std::span<T> piece{reinterpret_cast<T*>(memory_.data() + end_), count};
    end_ += piece.size_bytes();
    return piece;
  }
  template <class T>
  std::span<const T> copied(std::span<const T> values) {
    const std::span<T> piece = taken<T>(values.size());
    EXPECT_EQ(cudaMemcpy(piece.data(), values.data(), values.size_bytes(), cudaMemcpyDefault), cudaSuccess);
    return piece;
  }
  template <class T>
  static std::vector<T> to_host(std::span<T> values) {
    std::vector<T> copy(values.size());
    EXPECT_EQ(cudaMemcpy(copy.data(), values.data(), values.size_bytes(), cudaMemcpyDefault), cudaSuccess);
    return copy;
  }

  cuda::DeviceMemory memory_;
  size_t end_ = 0;
  uint32_t misalignment_;
  RankInput input_;
  RankOutput output_;
};

TEST_F(Sm90Layer, TakesHostAndGpuMemoryAlike) {
  const SyntheticBatch batch(layer_.input, 37);
  const std::vector<Bf16> expected = run_over(layer_, batch, {37});
  const auto group = Group::threads(1);
  auto moe = Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  for (const uint32_t misalignment : {0U, 4U}) {
    const DeviceCall call(batch.all(), 9, misalignment);
    const Status status = call.run(*moe);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(call.y() == expected) << misalignment;
    const std::vector<uint32_t> rows = call.rows();
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0U), 37U * 3U);
    EXPECT_EQ(moe->stats().front().num_rows_received, 37U * 3U);
    EXPECT_GT(moe->stats().front().device_seconds, 0);
  }
}

TEST_F(Sm90Layer, BadIdsInGpuMemoryAreFoundBeforeAnythingRuns) {
  const SyntheticBatch batch(layer_.input, 5);
  RankInput input = batch.all();
  const auto good = std::get<std::span<const int32_t>>(input.topk_ids);
  std::vector<int32_t> ids(good.begin(), good.end());
  ids[4] = 9;
  input.topk_ids = std::span<const int32_t>(ids);
  const auto group = Group::threads(1);
  auto moe = Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  const DeviceCall call(input, 9, 0);
  expect_refused(call.run(*moe), StatusCode::invalid_argument,
                 {"topk_ids[1, 1] must be an expert in 0..8", "(got 9)", "check the router"});
  for (const Bf16 value : call.y()) EXPECT_EQ(value.bits, 0U);
  // The layer is as good as before.
  EXPECT_TRUE(DeviceCall(batch.all(), 9, 0).run(*moe).ok());
}

TEST_F(Sm90Layer, RanksBackendsAndRepeatsGiveTheSameBits) {
  const SyntheticBatch batch(layer_.input, 40);
  const std::vector<Bf16> expected = run_over(layer_, batch, {40});
  layer_.config.backend = Backend::chain;
  for (const uint32_t num_ranks : {1U, 2U, 3U, 8U}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_TRUE(run_over(layer_, batch, even_split(40, num_ranks)) == expected) << num_ranks;
    }
  }
}

TEST_F(Sm90Layer, LayersOfOneShapeShareAWorkspace) {
  const SyntheticBatch batch(layer_.input, 24);
  const std::vector<RankInput> inputs = batch.split({7, 17});
  const auto group = Group::threads(2);
  TestLayer other = layer_;
  other.weights.seed = 5;
  auto first = Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group);
  auto second = Layer::create(layer_.config, SyntheticWeights(other.weights), *group);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  const std::vector<Bf16> expected_first = run_over(layer_, batch, {24});
  const std::vector<Bf16> expected_second = run_over(other, batch, {24});
  std::vector<Bf16> y(expected_first.size());
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_TRUE(first->run(inputs, outputs_over(y, inputs, kHidden)).ok());
    EXPECT_TRUE(y == expected_first);
    ASSERT_TRUE(second->run(inputs, outputs_over(y, inputs, kHidden)).ok());
    EXPECT_TRUE(y == expected_second);
  }
  EXPECT_NE(first->dump_workspace(1).find("pool_x"), std::string::npos);
}

TEST_F(Sm90Layer, WeightsThatItCannotMultiplyAreRefused) {
  layer_.weights.routed.format = WeightFormat::mxfp4;
  const auto group = Group::threads(1);
  const auto moe = Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group);
  expect_refused(moe.status(), StatusCode::unsupported, {"must be fp8", "(got mxfp4)", "backend cpu"});
}

}  // namespace
}  // namespace megamoe
