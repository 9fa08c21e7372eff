#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "megamoe/router.hpp"

namespace megamoe {
namespace {

/// A call that is right, for a test to break in one place.
struct Call {
  RouterConfig config{.kind = RouterKind::sigmoid_bias,
                      .hidden = 4,
                      .num_experts = 8,
                      .top_k = 2,
                      .renormalise = true,
                      .scale = 1.0F,
                      .num_groups = 4,
                      .num_top_groups = 2};
  size_t num_gate = 32;
  size_t num_logit_bias = 0;
  size_t num_selection_bias = 8;
  size_t num_x = 12;
  size_t num_ids = 6;
  size_t num_weights = 6;

  Status run() const {
    const std::vector<float> floats(64, 0.5F);
    const std::vector<Bf16> x(num_x);
    std::vector<int32_t> ids(num_ids, -7);
    std::vector<float> weights(num_weights, -7.0F);
    const std::span<const float> all(floats);
    const RouterWeights router{all.first(num_gate), all.first(num_logit_bias), all.first(num_selection_bias)};
    const Status status = route(config, router, x, 3, ids, weights);
    if (!status.ok()) {
      EXPECT_EQ(ids, std::vector<int32_t>(num_ids, -7)) << "an argument error must leave the outputs alone";
    }
    return status;
  }
};

struct Fault {
  const char* name;
  std::function<void(Call&)> break_it;
  std::string message;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const Fault& one, std::ostream* out) { *out << one.name; }

class RouterErrors : public ::testing::TestWithParam<Fault> {};

TEST_P(RouterErrors, NameRuleValueAndRemedy) {
  Call call;
  ASSERT_TRUE(call.run().ok());
  GetParam().break_it(call);
  const Status status = call.run();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, RouterErrors,
    ::testing::Values(
        Fault{"Hidden", [](Call& c) { c.config.hidden = 0; }, "hidden must be positive (got 0); set the width of x"},
        Fault{"NoExperts", [](Call& c) { c.config.num_experts = 0; },
              "num_experts must be 1..1024 (got 0); set the number of routed experts"},
        Fault{"TooManyExperts", [](Call& c) { c.config.num_experts = 1025; },
              "num_experts must be 1..1024 (got 1025); set the number of routed experts"},
        Fault{"NoTopK", [](Call& c) { c.config.top_k = 0; },
              "top_k must be 1..8 (got 0); choose at most as many experts as there are"},
        Fault{"TopKAboveExperts", [](Call& c) { c.config.top_k = 9; },
              "top_k must be 1..8 (got 9); choose at most as many experts as there are"},
        Fault{"TopKAboveCandidates", [](Call& c) { c.config.top_k = 5; },
              "top_k must be at most the 4 experts of the best groups (got 5); raise num_top_groups"},
        Fault{"Scale", [](Call& c) { c.config.scale = std::numeric_limits<float>::infinity(); },
              "scale must be finite (got inf); use 1 for no scaling"},
        Fault{"NoGroups", [](Call& c) { c.config.num_groups = 0; },
              "num_groups must divide num_experts = 8 (got 0); use 1 for a router without groups"},
        Fault{"UnevenGroups", [](Call& c) { c.config.num_groups = 3; },
              "num_groups must divide num_experts = 8 (got 3); use 1 for a router without groups"},
        Fault{"NoTopGroups", [](Call& c) { c.config.num_top_groups = 0; },
              "num_top_groups must be 1..4 (got 0); choose at most as many groups as there are"},
        Fault{"TopGroupsAboveGroups", [](Call& c) { c.config.num_top_groups = 5; },
              "num_top_groups must be 1..4 (got 5); choose at most as many groups as there are"},
        Fault{"GroupsWithoutScores",
              [](Call& c) {
                c.config.kind = RouterKind::topk_softmax;
                c.num_selection_bias = 0;
              },
              "num_groups must be 1 for topk_softmax (got 4); this router has no groups: set num_groups and "
              "num_top_groups to 1"},
        Fault{"Gate", [](Call& c) { c.num_gate = 31; },
              "gate must have 32 values (got 31); pass the whole [num_experts, hidden] matrix"},
        Fault{"LogitBias", [](Call& c) { c.num_logit_bias = 7; },
              "logit_bias must have 8 values (got 7); pass one per expert, or none at all"},
        Fault{"SelectionBias", [](Call& c) { c.num_selection_bias = 7; },
              "selection_bias must have 8 values (got 7); pass one per expert, or none at all"},
        Fault{
            "SelectionBiasForSoftmax", [](Call& c) { c.config.kind = RouterKind::softmax_topk; },
            "selection_bias must be empty for softmax routers (got 8 values); use sigmoid_bias or sqrt_softplus_bias, "
            "or drop the bias"},
        Fault{"X", [](Call& c) { c.num_x = 11; },
              "x must have 12 values (got 11); pass num_tokens rows of hidden values"},
        Fault{"Ids", [](Call& c) { c.num_ids = 5; }, "topk_ids must have 6 values (got 5); size it num_tokens * top_k"},
        Fault{"Weights", [](Call& c) { c.num_weights = 7; },
              "topk_weights must have 6 values (got 7); size it num_tokens * top_k"}),
    [](const ::testing::TestParamInfo<Fault>& instance) { return instance.param.name; });

}  // namespace
}  // namespace megamoe
