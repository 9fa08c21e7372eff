// Configs, groups and weights that must be refused before anything is allocated or packed.

#include <functional>
#include <limits>

#include "bad_input.hpp"
#include "layer_fixture.hpp"

namespace megamoe {
namespace {

struct BadConfig {
  const char* name;
  std::function<void(LayerConfig&)> spoil;
  Wanted wanted;
  StatusCode code = StatusCode::invalid_argument;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const BadConfig& one, std::ostream* out) { *out << one.name; }

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

const std::vector<BadConfig>& bad_configs() {
  static const std::vector<BadConfig> configs = {
      {"HiddenZero", [](auto& c) { c.shape.hidden = 0; }, {"hidden must be in 16..", "(got 0)", "give the columns"}},
      {"Hidden7100",
       [](auto& c) { c.shape.hidden = 7100; },
       {"hidden must be a multiple of 16", "(got 7100)", "pad the weights"}},
      {"HiddenHuge",
       [](auto& c) { c.shape.hidden = 1U << 30; },
       {"hidden must be in 16..1048576", "(got 1073741824)", "columns of a token"}},
      {"IntermediateZero",
       [](auto& c) { c.shape.intermediate = 0; },
       {"intermediate must be in 16..", "(got 0)", "give the columns"}},
      {"IntermediateOdd",
       [](auto& c) { c.shape.intermediate = 100; },
       {"intermediate must be a multiple of 16", "(got 100)", "pad the weights"}},
      {"NoExperts",
       [](auto& c) { c.shape.num_experts = 0; },
       {"num_experts must be in 1..1024", "(got 0)", "split the layer"}},
      {"TooManyExperts",
       [](auto& c) { c.shape.num_experts = 1025; },
       {"num_experts must be in 1..1024", "(got 1025)", "split the layer"}},
      {"NoChoices", [](auto& c) { c.shape.top_k = 0; }, {"top_k must be in 1..32", "(got 0)", "router's choices"}},
      {"TooManyChoices",
       [](auto& c) { c.shape.top_k = 33; },
       {"top_k must be in 1..32", "(got 33)", "router's choices"}},
      {"TooManyShared",
       [](auto& c) { c.shape.num_shared_experts = 9; },
       {"num_shared_experts must be in 0..8", "(got 9)", "merge shared experts"}},
      {"NoTokens",
       [](auto& c) { c.max_tokens_per_rank = 0; },
       {"max_tokens_per_rank must be in 1..", "(got 0)", "most tokens that one rank brings"}},
      {"TooManyTokens",
       [](auto& c) { c.max_tokens_per_rank = 1U << 25; },
       {"max_tokens_per_rank must be in 1..16777216", "(got 33554432)", "most tokens"}},
      {"LimitZero",
       [](auto& c) { c.activation.limit = 0.0F; },
       {"limit must be positive", "(got 0)", "leave it unset"}},
      {"LimitNegative",
       [](auto& c) { c.activation.limit = -1.0F; },
       {"limit must be positive", "(got -1)", "leave it unset"}},
      {"LimitNan",
       [](auto& c) { c.activation.limit = kNan; },
       {"limit must be positive", "(got nan)", "leave it unset"}},
      {"LimitInfinite",
       [](auto& c) { c.activation.limit = kInf; },
       {"positive and finite", "(got inf)", "leave it unset"}},
      {"AlphaNan", [](auto& c) { c.activation.alpha = kNan; }, {"alpha must be finite", "(got nan)", "use 1"}},
      {"AlphaInfinite", [](auto& c) { c.activation.alpha = -kInf; }, {"alpha must be finite", "(got -inf)", "use 1"}},
      {"UpOffsetNan",
       [](auto& c) { c.activation.up_offset = kNan; },
       {"up_offset must be finite", "(got nan)", "use 0"}},
      {"RouterWeightEnum",
       [](auto& c) { c.activation.router_weight = RouterWeightPosition{7}; },
       {"router_weight must be before_gemm2 or at_combine", "(got 7)", "enumerators"}},
      {"ScaleEnum",
       [](auto& c) { c.activation.scale = ActivationScale{9}; },
       {"activation scale must be fp32 or power_of_two", "(got 9)", "enumerators"}},
      {"ThreadsHuge",
       [](auto& c) { c.tuning.threads_per_rank = 5000; },
       {"threads_per_rank must be in 0..1024", "(got 5000)", "use 0"}},
      {"PinEnum",
       [](auto& c) { c.tuning.pin = Pin{4}; },
       {"pin must be automatic, none, node or core", "(got 4)", "enumerators"}},
      {"StrategyEnum",
       [](auto& c) { c.tuning.strategy = Strategy{4}; },
       {"strategy must be automatic, cooperative, pingpong or small_batch", "(got 4)", "enumerators"}},
      {"StrategyOnCpu",
       [](auto& c) { c.tuning.strategy = Strategy::pingpong; },
       {"strategy must be auto on cpu", "(got pingpong)", "use backend sm90 or chain"},
       StatusCode::unsupported},
      {"BlockM48",
       [](auto& c) { c.tuning.block_m = 48; },
       {"block_m must be 16, 32, 64, 128 or 256", "(got 48)", "use 0"}},
      {"Gemm1BlockN100",
       [](auto& c) { c.tuning.gemm1_block_n = 100; },
       {"gemm1_block_n must be a multiple of 128", "(got 100)", "whole scale groups"}},
      {"Gemm1TooManyBlocks",
       [](auto& c) {
         c.shape.intermediate = 128 * 65;
         c.tuning.gemm1_block_n = 128;
       },
       {"into at most 64 blocks", "(got 128)", "wider block"}},
      {"Gemm2BlockN20",
       [](auto& c) { c.tuning.gemm2_block_n = 20; },
       {"gemm2_block_n must be a multiple of 16", "(got 20)", "use 0"}},
      {"TimeoutZero",
       [](auto& c) { c.timeout = std::chrono::milliseconds(0); },
       {"timeout must be positive", "(got 0 ms)", "the default is"}},
      {"StartTimeoutNegative",
       [](auto& c) { c.start_timeout = std::chrono::milliseconds(-1); },
       {"start_timeout must be positive", "(got -1 ms)", "the default is"}},
      {"BackendSm100",
       [](auto& c) { c.backend = Backend::sm100; },
       {"backend must be one that this build has: cpu, sm90 or chain", "(got sm100)", "use auto or cpu"},
       StatusCode::unsupported},
  };
  return configs;
}

class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsRefusedByPlanAndCreate) {
  TestLayer layer({256, 256, 8, 2, 0});
  GetParam().spoil(layer.config);
  expect_refused(megamoe::plan(layer.config, 2).status(), GetParam().code, GetParam().wanted);
  auto group = Group::threads(2);
  const SyntheticWeights weights(layer.weights);
  expect_refused(Layer::create(layer.config, weights, *group).status(), GetParam().code, GetParam().wanted);
}

INSTANTIATE_TEST_SUITE_P(Rules, BadConfigTest, testing::ValuesIn(bad_configs()),
                         [](const auto& config) { return config.param.name; });

TEST(BadGroup, SizesAreChecked) {
  expect_refused(Group::threads(0).status(), StatusCode::invalid_argument,
                 {"num_ranks must be in 1..64", "(got 0)", "fewer ranks"});
  expect_refused(Group::threads(65).status(), StatusCode::invalid_argument,
                 {"num_ranks must be in 1..64", "(got 65)", "fewer ranks"});
  TestLayer layer({256, 256, 8, 2, 0});
  expect_refused(megamoe::plan(layer.config, 0).status(), StatusCode::invalid_argument,
                 {"num_ranks must be in 1..64", "(got 0)", "fewer ranks"});
}

TEST(BadPlan, PoolBeyondItsIndexType) {
  TestLayer layer({256, 256, 64, 32, 0});
  layer.config.max_tokens_per_rank = 1U << 24;
  expect_refused(megamoe::plan(layer.config, 8).status(), StatusCode::invalid_argument,
                 {"the pool must have fewer than 2147483648 rows", "(got 4294968576)", "lower max_tokens_per_rank"});
}

TEST(BadNames, ListTheGoodOnes) {
  expect_refused(parse_backend("gpu").status(), StatusCode::invalid_argument,
                 {"backend must be one of auto, cpu, sm90, sm100, chain", "(got gpu)", "choose one"});
  expect_refused(parse_isa("sse9").status(), StatusCode::invalid_argument,
                 {"isa must be one of auto, scalar, avx2, avx512", "(got sse9)", "choose one"});
  expect_refused(parse_pin("socket").status(), StatusCode::invalid_argument,
                 {"pin must be one of auto, none, node, core", "(got socket)", "choose one"});
  expect_refused(parse_strategy("wide").status(), StatusCode::invalid_argument,
                 {"strategy must be one of auto, cooperative, pingpong, small_batch", "(got wide)", "choose one"});
}

// ---------------------------------------------------------------- weights

TEST(BadWeights, MissingExpertsAreNamed) {
  TestLayer layer({64, 64, 4, 1, 0});
  const SyntheticWeights weights(layer.weights);
  auto group = Group::threads(1);
  const auto first = weights.routed(0);
  ASSERT_TRUE(first.ok());
  expect_refused(Layer::create(layer.config, ArrayWeights({*first}), *group).status(), StatusCode::invalid_argument,
                 {"expert must be in 0..0", "(got 1)", "weights of every expert"});
}

TEST(BadWeights, SharedExpertsNeedASource) {
  TestLayer layer({64, 64, 4, 1, 0});
  layer.config.shape.num_shared_experts = 1;
  class RoutedOnly final : public WeightSource {
   public:
    explicit RoutedOnly(const SyntheticWeightSpec& spec) : weights_(spec) {}
    Result<ExpertWeights> routed(uint32_t expert_idx) const override { return weights_.routed(expert_idx); }

   private:
    SyntheticWeights weights_;
  };
  auto group = Group::threads(1);
  expect_refused(Layer::create(layer.config, RoutedOnly(layer.weights), *group).status(), StatusCode::invalid_argument,
                 {"must implement shared()", "(got 0)", "override it"});
}

TEST(BadWeights, AnotherShapesWeightsAreRefusedByExpert) {
  TestLayer layer({64, 64, 4, 1, 0});
  TestLayer other({64, 128, 4, 1, 0});
  auto group = Group::threads(1);
  const Status status = Layer::create(layer.config, SyntheticWeights(other.weights), *group).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("expert 0"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("128"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace megamoe
