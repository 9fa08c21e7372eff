// Waits are bounded: a worker that waits for one that never comes says what it waited for.

#include <thread>

#include "cpu/atomics.hpp"
#include "cpu/worker.hpp"
#include "flow/ring_fault.hpp"
#include "host/describe.hpp"
#include "host/group.hpp"
#include "host/plan.hpp"
#include "layer_fixture.hpp"

namespace megamoe {
namespace {

using flow::Field;

/// Two ranks' workspaces with one worker each, driven by hand.
class TimeOut : public testing::Test {
 protected:
  TimeOut() {
    LayerConfig config;
    config.shape = {64, 64, 4, 2, 0};
    config.max_tokens_per_rank = 4;
    config.timeout = std::chrono::milliseconds(60);
    config.start_timeout = std::chrono::milliseconds(60);
    config.tuning.threads_per_rank = 1;
    rules_ = internal::cpu_rules(*internal::make_plan(config, 2));
    group_ = internal::make_thread_group(2);
    memory_ = *group_->allocate(rules_.layout.num_bytes);
    for (uint32_t r = 0; r < 2; ++r) {
      local_[r].rank = flow::Rank{r};
      local_[r].peers = {memory_->bases().data(), &rules_.layout};
      local_[r].own = local_[r].peers.at(flow::Rank{r});
      calls_[r].input = &no_input_;
      calls_[r].output = &no_output_;
    }
  }

  cpu::Worker worker(uint32_t rank) {
    return {.rules = rules_, .local = local_[rank], .call = calls_[rank], .scratch = {}};
  }

  cpu::LayerRules rules_;
  std::shared_ptr<internal::GroupState> group_;
  std::unique_ptr<internal::SymmetricMemory> memory_;
  cpu::LocalRank local_[2];
  cpu::RankCall calls_[2];
  RankInput no_input_;
  RankOutput no_output_;
};

TEST_F(TimeOut, Case19_AbsentRankIsNamed) {
  cpu::Worker alone = worker(0);
  alone.stage = Stage::exchange;
  EXPECT_FALSE(cpu::barrier(alone));
  const auto* fault = local_[0].own.get<Field::fault>();
  ASSERT_EQ(fault->is_set, 2U);
  const std::string words = internal::fault_words(rules_, *fault);
  for (const char* part : {"rank 0 worker 0 in stage exchange", "time-out of 60 ms", "rank 1 to enter the barrier",
                           "peer_epoch[1] must reach 1 (got 0)", "re-create the group"}) {
    EXPECT_NE(words.find(part), std::string::npos) << words;
  }
}

TEST_F(TimeOut, OneRanksFaultEndsTheOthersWaitAtOnce) {
  rules_.timeout = rules_.start_timeout = std::chrono::minutes(10);
  cpu::Worker waiting = worker(1);
  std::thread other([&] { EXPECT_FALSE(cpu::barrier(waiting)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cpu::store_release(local_[1].own.get<Field::abort_flag>(), 1U);
  other.join();
  EXPECT_EQ(local_[1].own.get<Field::fault>()->is_set, 0U);
}

TEST_F(TimeOut, Case17_ALateStarterIsWaitedForOnTheFirstCall) {
  rules_.timeout = std::chrono::milliseconds(20);
  rules_.start_timeout = std::chrono::minutes(10);
  calls_[0].is_first = calls_[1].is_first = true;
  cpu::Worker early = worker(0);
  std::thread other([&] { EXPECT_TRUE(cpu::barrier(early)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // ten time-outs late
  cpu::Worker late = worker(1);
  EXPECT_TRUE(cpu::barrier(late));
  other.join();
}

TEST_F(TimeOut, TheRecordNamesTheLimitThatHeld) {
  rules_.start_timeout = std::chrono::milliseconds(5000);
  flow::FaultRecord fault;
  fault.field = static_cast<uint32_t>(Field::peer_epoch);
  fault.wanted = 1;  // the first barrier on a workspace
  EXPECT_NE(internal::fault_words(rules_, fault).find("time-out of 5000 ms"), std::string::npos);
  fault.wanted = 4;
  EXPECT_NE(internal::fault_words(rules_, fault).find("time-out of 60 ms"), std::string::npos);
}

/// A ring of a kernel is no field of the workspace.
TEST_F(TimeOut, TheRecordNamesTheSlotOfARing) {
  flow::FaultRecord fault;
  fault.field = static_cast<uint32_t>(flow::kRingReleased);
  fault.index = 3;
  fault.wanted = 8;
  fault.seen = 7;
  const std::string words = internal::fault_words(rules_, fault);
  EXPECT_NE(words.find("slot 3 of a ring to be released: items[3] must reach 8 (got 7)"), std::string::npos) << words;
}

TEST(LayerTimeOut, CallReturnsAnErrorAndTheGroupIsSpent) {
  TestLayer layer({512, 512, 8, 8, 0}, WeightFormat::bf16);
  layer.config.max_tokens_per_rank = 2048;
  layer.config.timeout = std::chrono::milliseconds(1);
  layer.config.start_timeout = std::chrono::milliseconds(1);
  layer.config.tuning.isa = Isa::scalar;
  auto group = Group::threads(2);
  auto moe = Layer::create(layer.config, SyntheticWeights(layer.weights), *group);
  ASSERT_TRUE(moe.ok()) << moe.status().to_string();
  // All rows belong to rank 1's experts, far more than a millisecond of work: rank 0 gives up.
  layer.input.routing.ids = {4, 5, 6, 7, 4, 5, 6, 7};
  const SyntheticBatch batch(layer.input, 2048);
  const std::vector<RankInput> inputs = batch.split({2048, 0});
  std::vector<Bf16> y(size_t{2048} * 512);
  const Status status = moe->run(inputs, outputs_over(y, inputs, 512));
  EXPECT_EQ(status.code(), StatusCode::timeout) << status.to_string();
  EXPECT_NE(status.message().find("waited longer than the time-out"), std::string::npos) << status.message();
  EXPECT_EQ(moe->run(inputs, outputs_over(y, inputs, 512)).code(), StatusCode::failed_precondition);
  EXPECT_FALSE(Layer::create(layer.config, SyntheticWeights(layer.weights), *group).ok());

  // A group made anew in the same process works.
  layer.config.timeout = std::chrono::minutes(1);
  auto fresh_group = Group::threads(2);
  auto fresh = Layer::create(layer.config, SyntheticWeights(layer.weights), *fresh_group);
  ASSERT_TRUE(fresh.ok());
  const SyntheticBatch small(layer.input, 4);
  const std::vector<RankInput> few = small.split({4, 0});
  EXPECT_TRUE(fresh->run(few, outputs_over(y, few, 512)).ok());
}

}  // namespace
}  // namespace megamoe
