// Calls that must be refused before anything runs: y stays untouched and the layer stays usable.

#include <functional>

#include "bad_input.hpp"
#include "layer_fixture.hpp"

namespace megamoe {
namespace {

constexpr LayerShape kShape{64, 64, 8, 2, 0};
constexpr uint32_t kNumTokens = 6;

/// One rank's call, owned, so that a test can spoil any part of it.
struct Call {
  std::vector<Bf16> x = std::vector<Bf16>(kNumTokens * kShape.hidden);
  std::vector<Fp8E4m3> codes = std::vector<Fp8E4m3>(kNumTokens * kShape.hidden);
  std::vector<float> scales = std::vector<float>(kNumTokens, 1.0F);
  std::vector<int32_t> ids = {0, 1, 2, 3, 4, 5, 6, 7, -1, -1, 3, 3};
  std::vector<int64_t> wide_ids = {0, 1, 2, 3, 4, 5, 6, 7, -1, -1, 3, 3};
  std::vector<float> weights = std::vector<float>(kNumTokens * kShape.top_k, 0.5F);
  std::vector<Bf16> y = std::vector<Bf16>(kNumTokens * kShape.hidden, Bf16{0xABCD});
  std::vector<uint32_t> rows = std::vector<uint32_t>(4);
  RankInput input{kNumTokens, std::span<const Bf16>(x), std::span<const int32_t>(ids), weights};
  RankOutput output{y, {}};

  Fp8Activations fp8() const { return {codes, std::span<const float>(scales)}; }
};

struct BadCall {
  const char* name;
  std::function<void(Call&)> spoil;
  Wanted wanted;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const BadCall& one, std::ostream* out) { *out << one.name; }

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls = {
      {"TooManyTokens",
       [](Call& c) { c.input.num_tokens = 7; },
       {"rank 1: num_tokens must be at most max_tokens_per_rank = 6", "(got 7)", "split the batch"}},
      {"ShortX",
       [](Call& c) { c.input.x = std::span<const Bf16>(c.x).first(383); },
       {"rank 1: x must have 384 elements, num_tokens * hidden", "(got 383)", "span of that length"}},
      {"EmptyX",
       [](Call& c) { c.input.x = std::span<const Bf16>(); },
       {"rank 1: x must have 384 elements", "(got 0)", "span of that length"}},
      {"ShortFp8",
       [](Call& c) {
         Fp8Activations x = c.fp8();
         x.values = x.values.first(5);
         c.input.x = x;
       },
       {"rank 1: x must have 384 elements", "(got 5)", "span of that length"}},
      {"ShortFp8Scales",
       [](Call& c) {
         Fp8Activations x = c.fp8();
         x.scales = std::span<const float>(c.scales).first(4);
         c.input.x = x;
       },
       {"rank 1: x scales must have 6 elements, num_tokens * ceil(hidden / 128)", "(got 4)", "span of that length"}},
      {"NoE8m0Scales",
       [](Call& c) {
         Fp8Activations x = c.fp8();
         x.scales = std::span<const E8m0>();
         c.input.x = x;
       },
       {"rank 1: x scales must have 6 elements", "(got 0)", "span of that length"}},
      {"ShortIds",
       [](Call& c) { c.input.topk_ids = std::span<const int32_t>(c.ids).first(11); },
       {"rank 1: topk_ids must have 12 elements, num_tokens * top_k", "(got 11)", "span of that length"}},
      {"LongIds64",
       [](Call& c) {
         c.wide_ids.push_back(0);
         c.input.topk_ids = std::span<const int64_t>(c.wide_ids);
       },
       {"rank 1: topk_ids must have 12 elements", "(got 13)", "span of that length"}},
      {"ShortWeights",
       [](Call& c) { c.input.topk_weights = std::span<const float>(c.weights).first(2); },
       {"rank 1: topk_weights must have 12 elements", "(got 2)", "span of that length"}},
      {"ShortY",
       [](Call& c) { c.output.y = std::span<Bf16>(c.y).first(10); },
       {"rank 1: y must have 384 elements", "(got 10)", "span of that length"}},
      {"WrongLoadCounts",
       [](Call& c) { c.output.local_expert_rows = std::span<uint32_t>(c.rows).first(3); },
       {"rank 1: local_expert_rows must have 4 elements, the rank's routed experts", "(got 3)", "span of that length"}},
      {"Case26_IdIsE",
       [](Call& c) { c.ids[5] = 8; },
       {"rank 1: topk_ids[2, 1] must be an expert in 0..7, or -1", "(got 8)", "check the router"}},
      {"Case26_IdIsMinusTwo",
       [](Call& c) { c.ids[0] = -2; },
       {"rank 1: topk_ids[0, 0] must be an expert in 0..7", "(got -2)", "check the router"}},
      {"Case26_IdIsTwoToThe32PlusOne",
       [](Call& c) {
         c.wide_ids[11] = (int64_t{1} << 32) + 1;
         c.input.topk_ids = std::span<const int64_t>(c.wide_ids);
       },
       {"rank 1: topk_ids[5, 1] must be an expert in 0..7", "(got 4294967297)", "declared width"}},
      {"Case26_Int64ReadAsInt32",
       [](Call& c) {
         // The router wrote int64, the caller declares int32: every other id is the upper half of a number.
         for (int64_t& id : c.wide_ids) id = id < 0 ? int64_t{-1} << 33 : id;
         c.input.topk_ids =
             std::span<const int32_t>(reinterpret_cast<const int32_t*>(c.wide_ids.data() + 6), c.ids.size());
       },
       {"must be an expert in 0..7, or -1", "(got -2)", "declared width is the real one"}},
  };
  return calls;
}

class TwoRanks : public testing::Test {
 protected:
  TwoRanks() : layer_(kShape) {
    layer_.config.max_tokens_per_rank = kNumTokens;
    moe_ = std::make_unique<Layer>(*Layer::create(layer_.config, SyntheticWeights(layer_.weights), *group_));
  }
  Status run(const Call& first, const Call& second) {
    const RankInput inputs[2] = {first.input, second.input};
    const RankOutput outputs[2] = {first.output, second.output};
    return moe_->run(inputs, outputs);
  }

  TestLayer layer_;
  Result<Group> group_ = Group::threads(2);
  std::unique_ptr<Layer> moe_;
};

class BadCallTest : public TwoRanks, public testing::WithParamInterface<BadCall> {};

TEST_P(BadCallTest, IsRefusedAndNothingIsWritten) {
  Call good;
  Call bad;
  GetParam().spoil(bad);
  expect_refused(run(good, bad), StatusCode::invalid_argument, GetParam().wanted);
  for (const Call* call : {&good, &bad}) {
    for (const Bf16 value : call->y) ASSERT_EQ(value.bits, 0xABCD);
  }
  Call again;
  EXPECT_TRUE(run(good, again).ok());
  EXPECT_TRUE(good.y == again.y);
}

INSTANTIATE_TEST_SUITE_P(Rules, BadCallTest, testing::ValuesIn(bad_calls()),
                         [](const auto& call) { return call.param.name; });

TEST_F(TwoRanks, OneRanksCallIsRefused) {
  Call call;
  expect_refused(
      moe_->run({&call.input, 1}, {&call.output, 1}), StatusCode::invalid_argument,
      {"one input and one output for each of the 2 ranks", "(got 1 inputs, 1 outputs)", "pass spans of that length"});
}

}  // namespace
}  // namespace megamoe
