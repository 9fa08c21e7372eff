// Work of a process's threads outside of calls: every part once, each thread at its place, calls and packing in turn.

#include "host/crew.hpp"

#include <atomic>
#include <thread>

#include "layer_fixture.hpp"

namespace megamoe {
namespace {

using internal::Crew;

TEST(Crew, EveryPartIsDoneOnce) {
  const auto group = internal::make_thread_group(2);
  group->team().grow(6, 2);
  const topology::ThreadMap threads(topology::usable(), {2, 3}, Pin::none);
  Crew crew(*group, threads, 3);
  for (const uint32_t num_parts : {0U, 1U, 5U, 6U, 1000U}) {
    std::vector<std::atomic<uint32_t>> times(num_parts);
    crew.share(num_parts, [&times](uint32_t part) { ++times[part]; });
    for (const auto& count : times) EXPECT_EQ(count, 1U);
  }
}

TEST(Crew, WorksAtItsPlaces) {
  const auto group = internal::make_thread_group(2);
  group->team().grow(2, 2);
  const topology::CpuList mask = topology::affinity_mask();
  topology::Topology two;
  two.nodes = {{0, {{{mask.front()}}}}, {1, {{{mask.back()}}}}};
  const topology::ThreadMap threads(two, {2, 1}, Pin::core);
  Crew crew(*group, threads, 1);
  crew.share(64, [&mask](uint32_t) {
    const topology::CpuList here = topology::affinity_mask();
    EXPECT_TRUE(here == topology::CpuList{mask.front()} || here == topology::CpuList{mask.back()});
  });
  EXPECT_EQ(topology::affinity_mask(), mask);
}

TEST(Crew, LayersAreMadeWhileOthersRun) {
  TestLayer layer({144, 128, 10, 2, 0});
  layer.config.tuning.threads_per_rank = 2;
  const SyntheticBatch batch(layer.input, 24);
  const std::vector<Bf16> expected = run_over(layer, batch, {12, 12});
  auto group = Group::threads(2);
  const SyntheticWeights weights(layer.weights);
  auto first = Layer::create(layer.config, weights, *group);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  std::atomic<bool> is_done = false;
  std::thread maker([&] {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Layer::create(layer.config, weights, *group).ok());
    is_done = true;
  });
  const std::vector<RankInput> inputs = batch.split({12, 12});
  do {
    std::vector<Bf16> y(expected.size());
    EXPECT_TRUE(first->run(inputs, outputs_over(y, inputs, layer.config.shape.hidden)).ok());
    EXPECT_TRUE(y == expected);
  } while (!is_done);
  maker.join();
}

}  // namespace
}  // namespace megamoe
