#include "megamoe/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "formats/bf16.hpp"

namespace megamoe {
namespace {

struct Choice {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

/// A router and its inputs, of any kind.
struct Problem {
  RouterConfig config;
  std::vector<float> gate;
  std::vector<float> logit_bias;
  std::vector<float> selection_bias;
  std::vector<Bf16> x;
  uint32_t num_tokens = 0;

  Choice route() const {
    Choice choice;
    choice.ids.resize(size_t{num_tokens} * config.top_k);
    choice.weights.resize(choice.ids.size());
    const Status status =
        megamoe::route(config, {gate, logit_bias, selection_bias}, x, num_tokens, choice.ids, choice.weights);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return choice;
  }
};

Problem random_problem(RouterKind kind, uint32_t num_experts, uint32_t top_k, uint32_t num_tokens, uint32_t seed) {
  Problem problem;
  problem.config = {.kind = kind, .hidden = 48, .num_experts = num_experts, .top_k = top_k};
  problem.num_tokens = num_tokens;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < size_t{num_experts} * 48; ++i) problem.gate.push_back(normal(generator) / 5);
  for (size_t i = 0; i < size_t{num_tokens} * 48; ++i) problem.x.push_back({bf16_from_float(normal(generator))});
  if (kind == RouterKind::sigmoid_bias || kind == RouterKind::sqrt_softplus_bias) {
    for (uint32_t i = 0; i < num_experts; ++i) problem.selection_bias.push_back(normal(generator) / 4);
  }
  if (kind == RouterKind::topk_softmax) {
    for (uint32_t i = 0; i < num_experts; ++i) problem.logit_bias.push_back(normal(generator) / 4);
  }
  return problem;
}

/// One token of the router in FP64 with whole sorts, written from the models' definitions.
class Expected {
 public:
  Expected(const Problem& problem, size_t token) : problem_(&problem) {
    const RouterConfig& config = problem.config;
    std::vector<double> logits(config.num_experts);
    for (size_t e = 0; e < logits.size(); ++e) {
      for (size_t col = 0; col < config.hidden; ++col) {
        logits[e] += static_cast<double>(bf16_to_float(problem.x[token * config.hidden + col].bits)) *
                     static_cast<double>(problem.gate[e * config.hidden + col]);
      }
      if (!problem.logit_bias.empty()) logits[e] += static_cast<double>(problem.logit_bias[e]);
    }
    scores_ = logits;
    switch (config.kind) {
      case RouterKind::softmax_topk: scores_ = softmax(logits); break;
      case RouterKind::topk_softmax: break;
      case RouterKind::sigmoid_bias:
        for (double& score : scores_) score = 1 / (1 + std::exp(-score));
        break;
      case RouterKind::sqrt_softplus_bias:
        for (double& score : scores_) score = std::sqrt(std::log(1 + std::exp(score)));
        break;
    }
    selection_ = scores_;
    for (size_t e = 0; e < problem.selection_bias.size(); ++e)
      selection_[e] += static_cast<double>(problem.selection_bias[e]);
    choose();
    weigh();
  }

  std::vector<size_t> ids;
  std::vector<double> weights;
  double smallest_gap = std::numeric_limits<double>::infinity();  ///< between any two values that were compared

 private:
  static std::vector<double> softmax(const std::vector<double>& logits) {
    std::vector<double> result;
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    for (const double logit : logits) result.push_back(std::exp(logit) / total);
    return result;
  }

  std::vector<size_t> sorted(const std::vector<double>& values, std::vector<size_t> candidates) {
    std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
    for (size_t i = 1; i < candidates.size(); ++i) {
      smallest_gap = std::min(smallest_gap, values[candidates[i - 1]] - values[candidates[i]]);
    }
    return candidates;
  }

  void choose() {
    const RouterConfig& config = problem_->config;
    const size_t group_size = config.num_experts / config.num_groups;
    std::vector<double> group_scores;
    for (size_t group = 0; group < config.num_groups; ++group) {
      std::vector<double> members(selection_.begin() + static_cast<ptrdiff_t>(group * group_size),
                                  selection_.begin() + static_cast<ptrdiff_t>((group + 1) * group_size));
      std::sort(members.rbegin(), members.rend());
      group_scores.push_back(config.kind == RouterKind::softmax_topk || group_size == 1 ? members[0]
                                                                                        : members[0] + members[1]);
    }
    std::vector<size_t> groups(config.num_groups);
    std::iota(groups.begin(), groups.end(), 0U);
    groups = sorted(group_scores, groups);
    std::vector<size_t> candidates;
    for (size_t i = 0; i < config.num_top_groups; ++i) {
      for (size_t k = 0; k < group_size; ++k) candidates.push_back(groups[i] * group_size + k);
    }
    std::sort(candidates.begin(), candidates.end());
    ids = sorted(selection_, candidates);
    ids.resize(config.top_k);
  }

  void weigh() {
    const RouterConfig& config = problem_->config;
    for (const size_t id : ids) weights.push_back(scores_[id]);
    if (config.kind == RouterKind::topk_softmax) {
      weights = softmax(weights);
    } else if (config.renormalise) {
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (double& weight : weights) weight /= total;
    }
    for (double& weight : weights) weight *= static_cast<double>(config.scale);
  }

  const Problem* problem_;
  std::vector<double> scores_;
  std::vector<double> selection_;
};

void expect_matches_fp64(const Problem& problem) {
  const Choice choice = problem.route();
  const uint32_t top_k = problem.config.top_k;
  uint32_t num_compared = 0;
  for (size_t token = 0; token < problem.num_tokens; ++token) {
    const Expected expected(problem, token);
    if (expected.smallest_gap < 1e-6) continue;  // FP32 may order these two either way
    ++num_compared;
    for (size_t k = 0; k < top_k; ++k) {
      ASSERT_EQ(choice.ids[token * top_k + k], static_cast<int32_t>(expected.ids[k]))
          << "token " << token << " k " << k;
      ASSERT_NEAR(static_cast<double>(choice.weights[token * top_k + k]), expected.weights[k],
                  2e-6 * std::max(1.0, expected.weights[k]))
          << "token " << token;
    }
  }
  EXPECT_GT(num_compared, problem.num_tokens * 9 / 10);
}

TEST(Router, SoftmaxThenTopK) {
  Problem problem = random_problem(RouterKind::softmax_topk, 32, 4, 100, 1);
  expect_matches_fp64(problem);
  problem.config.renormalise = false;
  problem.config.scale = 16;
  expect_matches_fp64(problem);
}

TEST(Router, TopKThenSoftmaxWithLogitBias) {
  const Problem problem = random_problem(RouterKind::topk_softmax, 33, 4, 100, 2);
  expect_matches_fp64(problem);
  const Choice choice = problem.route();
  for (size_t token = 0; token < problem.num_tokens; ++token) {
    EXPECT_NEAR(std::accumulate(choice.weights.begin() + static_cast<ptrdiff_t>(token * 4),
                                choice.weights.begin() + static_cast<ptrdiff_t>(token * 4 + 4), 0.0F),
                1.0F, 1e-6F);
  }
}

TEST(Router, SigmoidWithSelectionBias) {
  Problem problem = random_problem(RouterKind::sigmoid_bias, 32, 6, 100, 3);
  problem.config.scale = 2.5F;
  expect_matches_fp64(problem);
  problem.config.renormalise = false;
  expect_matches_fp64(problem);
}

TEST(Router, SigmoidWithGroups) {
  for (const uint32_t num_top_groups : {1U, 3U, 4U, 8U}) {
    Problem problem = random_problem(RouterKind::sigmoid_bias, 64, 8, 100, 4);
    problem.config.num_groups = 8;
    problem.config.num_top_groups = num_top_groups;
    expect_matches_fp64(problem);
  }
}

TEST(Router, SqrtSoftplusWithAndWithoutGroups) {
  Problem problem = random_problem(RouterKind::sqrt_softplus_bias, 48, 6, 100, 5);
  problem.config.scale = 1.5F;
  expect_matches_fp64(problem);
  problem.config.num_groups = 6;
  problem.config.num_top_groups = 2;
  expect_matches_fp64(problem);
}

TEST(Router, SoftmaxWithGroupsUsesTheBestExpertOfAGroup) {
  Problem problem = random_problem(RouterKind::softmax_topk, 40, 5, 100, 6);
  problem.config.num_groups = 8;
  problem.config.num_top_groups = 3;
  problem.config.renormalise = false;
  expect_matches_fp64(problem);
}

TEST(Router, GroupsOfOneExpert) {
  Problem problem = random_problem(RouterKind::sigmoid_bias, 12, 2, 50, 7);
  problem.config.num_groups = 12;
  problem.config.num_top_groups = 5;
  expect_matches_fp64(problem);
}

/// Expert logits given directly: x is one column of ones.
Problem direct(RouterKind kind, std::vector<float> logits, uint32_t top_k) {
  Problem problem;
  problem.config = {.kind = kind, .hidden = 1, .num_experts = static_cast<uint32_t>(logits.size()), .top_k = top_k};
  problem.gate = std::move(logits);
  problem.x = {{0x3F80}};
  problem.num_tokens = 1;
  return problem;
}

TEST(Router, GroupScoreIsTheSumOfTheBestTwoBiasedScores) {
  // Group 0 holds the single best expert, group 1 the best pair.
  Problem problem = direct(RouterKind::sigmoid_bias, {0, 0, 0, 0, 0, 0}, 2);
  problem.selection_bias = {0.9F, -1, -1, 0.5F, 0.6F, 0};
  problem.config.num_groups = 2;
  EXPECT_EQ(problem.route().ids, (std::vector<int32_t>{4, 3}));
  problem.config.kind = RouterKind::softmax_topk;  // ... where the best one alone decides
  problem.selection_bias.clear();
  problem.gate = {0.9F, -1, -1, 0.5F, 0.6F, 0};
  EXPECT_EQ(problem.route().ids, (std::vector<int32_t>{0, 1}));
}

TEST(Router, NegativeBiasedScoresStayInsideTheBestGroups) {
  // A rejected group must not return through scores of zero when all candidates are negative.
  Problem problem = direct(RouterKind::sigmoid_bias, {0, 0, 0, 0}, 2);
  problem.selection_bias = {-2, -2, -3, -3};
  problem.config.num_groups = 2;
  EXPECT_EQ(problem.route().ids, (std::vector<int32_t>{0, 1}));
}

TEST(Router, SelectionBiasChoosesButDoesNotWeigh) {
  Problem problem = direct(RouterKind::sigmoid_bias, {2, 0, -2}, 1);
  problem.selection_bias = {0, 0, 5};
  problem.config.renormalise = false;
  const Choice choice = problem.route();
  EXPECT_EQ(choice.ids[0], 2);
  EXPECT_NEAR(choice.weights[0], 1 / (1 + std::exp(2.0F)), 1e-6F);
}

TEST(Router, TiesPreferTheLowerExpert) {
  for (const RouterKind kind :
       {RouterKind::softmax_topk, RouterKind::topk_softmax, RouterKind::sigmoid_bias, RouterKind::sqrt_softplus_bias}) {
    Problem problem = direct(kind, {1, 3, 3, 1, 3, 1}, 5);
    EXPECT_EQ(problem.route().ids, (std::vector<int32_t>{1, 2, 4, 0, 3}));
  }
  Problem grouped = direct(RouterKind::sigmoid_bias, std::vector<float>(8, 0.5F), 3);
  grouped.config.num_groups = 4;
  grouped.config.num_top_groups = 2;
  EXPECT_EQ(grouped.route().ids, (std::vector<int32_t>{0, 1, 2}));
}

TEST(Router, NanScoresComeLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Problem problem = direct(RouterKind::sigmoid_bias, {nan, 1, nan, 0, -1}, 4);
  const Choice choice = problem.route();
  EXPECT_EQ(choice.ids, (std::vector<int32_t>{1, 3, 4, 0}));
}

TEST(Router, ANanTokenTakesTheFirstExpertsAndLeavesOthersAlone) {
  for (const RouterKind kind :
       {RouterKind::softmax_topk, RouterKind::topk_softmax, RouterKind::sigmoid_bias, RouterKind::sqrt_softplus_bias}) {
    Problem problem = random_problem(kind, 16, 3, 3, 8);
    const Choice clean = problem.route();
    problem.x[48 + 7] = {0x7FC0};
    const Choice poisoned = problem.route();
    EXPECT_EQ((std::vector<int32_t>(poisoned.ids.begin() + 3, poisoned.ids.begin() + 6)),
              (std::vector<int32_t>{0, 1, 2}));
    for (const size_t slot : {0U, 1U, 2U, 6U, 7U, 8U}) {
      EXPECT_EQ(poisoned.ids[slot], clean.ids[slot]);
      EXPECT_EQ(poisoned.weights[slot], clean.weights[slot]);
    }
    EXPECT_TRUE(std::isnan(poisoned.weights[3]));
  }
}

TEST(Router, LargeLogitsDoNotOverflow) {
  for (const RouterKind kind :
       {RouterKind::softmax_topk, RouterKind::topk_softmax, RouterKind::sigmoid_bias, RouterKind::sqrt_softplus_bias}) {
    const Choice choice = direct(kind, {1000, -1000, 999, 0}, 2).route();
    EXPECT_EQ(choice.ids[0], 0);
    for (const float weight : choice.weights) EXPECT_TRUE(std::isfinite(weight));
  }
}

TEST(Router, AllZeroScoresGiveZeroWeights) {
  Problem problem = direct(RouterKind::sqrt_softplus_bias, {-200, -200}, 2);
  EXPECT_EQ(problem.route().weights, (std::vector<float>{0, 0}));
}

TEST(Router, ATokensResultDependsOnThatTokenAlone) {
  const Problem whole = random_problem(RouterKind::sigmoid_bias, 32, 4, 20, 9);
  const Choice all = whole.route();
  for (size_t token = 0; token < 20; ++token) {
    Problem one = whole;
    one.num_tokens = 1;
    one.x.assign(whole.x.begin() + static_cast<ptrdiff_t>(token * 48),
                 whole.x.begin() + static_cast<ptrdiff_t>(token * 48 + 48));
    const Choice alone = one.route();
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(alone.ids[k], all.ids[token * 4 + k]);
      EXPECT_EQ(alone.weights[k], all.weights[token * 4 + k]);
    }
  }
}

TEST(Router, NoTokens) {
  Problem problem = random_problem(RouterKind::softmax_topk, 8, 2, 0, 10);
  EXPECT_TRUE(problem.route().ids.empty());
}

}  // namespace
}  // namespace megamoe
