#include "megamoe/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "formats/bf16.hpp"
#include "router/check.hpp"

namespace megamoe {
namespace {

/// Keeps a sum of weights that are all zero from dividing by zero, and changes no other sum.
constexpr float kSumFloor = 1e-20F;

/// Work space of one call, sized once.
struct Scratch {
  std::vector<float> x;          // [H]
  std::vector<float> scores;     // [E]: what becomes a weight
  std::vector<float> selection;  // [E]: what is compared
  std::vector<float> group_scores;
  std::vector<uint32_t> experts;  // candidates, then the chosen ones in front
  std::vector<uint32_t> groups;
};

/// A total order over all floats, NaN included: greater first, NaN last, the lower index on a tie.
class BetterScore {
 public:
  explicit BetterScore(const std::vector<float>& scores) : scores_(&scores) {}
  bool operator()(uint32_t a, uint32_t b) const {
    const float score_a = (*scores_)[a];
    const float score_b = (*scores_)[b];
    const bool nan_a = std::isnan(score_a);
    const bool nan_b = std::isnan(score_b);
    if (nan_a || nan_b) return nan_a == nan_b ? a < b : nan_b;
    if (score_a != score_b) return score_a > score_b;
    return a < b;
  }

 private:
  const std::vector<float>* scores_;
};

float sigmoid(float logit) { return 1.0F / (1.0F + std::exp(-logit)); }

float sqrt_softplus(float logit) {
  // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) neither overflows nor loses a small result.
  return std::sqrt(std::max(logit, 0.0F) + std::log1p(std::exp(-std::fabs(logit))));
}

/// scores[e] = sum over columns of x[col] * gate[e, col], in column order, plus the bias.
void compute_logits(const RouterConfig& config, const RouterWeights& weights, const Bf16* row, Scratch& scratch) {
  for (uint32_t col = 0; col < config.hidden; ++col) scratch.x[col] = bf16_to_float(row[col].bits);
  constexpr uint32_t kLanes = 8;  // experts side by side: each sum is a chain, the lanes hide its latency
  for (uint32_t first = 0; first < config.num_experts; first += kLanes) {
    const uint32_t num_lanes = std::min(kLanes, config.num_experts - first);
    float sums[kLanes] = {};
    for (uint32_t col = 0; col < config.hidden; ++col) {
      for (uint32_t lane = 0; lane < num_lanes; ++lane) {
        sums[lane] += scratch.x[col] * weights.gate[size_t{first + lane} * config.hidden + col];
      }
    }
    for (uint32_t lane = 0; lane < num_lanes; ++lane) {
      const uint32_t expert_idx = first + lane;
      const float bias = weights.logit_bias.empty() ? 0.0F : weights.logit_bias[expert_idx];
      scratch.scores[expert_idx] = sums[lane] + bias;
    }
  }
}

/// Logits to probabilities, over the first `count` entries. NaN anywhere makes every entry NaN.
void softmax(float* values, size_t count) {
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, values[i]);
  float total = 0.0F;
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::exp(values[i] - largest);
    total += values[i];
  }
  for (size_t i = 0; i < count; ++i) values[i] /= total;
}

/// Turns logits into scores and selection scores.
void compute_scores(const RouterConfig& config, const RouterWeights& weights, Scratch& scratch) {
  switch (config.kind) {
    case RouterKind::softmax_topk: softmax(scratch.scores.data(), scratch.scores.size()); break;
    case RouterKind::topk_softmax: break;
    case RouterKind::sigmoid_bias:
      for (float& score : scratch.scores) score = sigmoid(score);
      break;
    case RouterKind::sqrt_softplus_bias:
      for (float& score : scratch.scores) score = sqrt_softplus(score);
      break;
  }
  scratch.selection = scratch.scores;
  for (size_t i = 0; i < weights.selection_bias.size(); ++i) scratch.selection[i] += weights.selection_bias[i];
}

/// Score of a group: its best expert for softmax (DeepSeek-V2), the sum of its best two otherwise (DeepSeek-V3).
float group_score(const RouterConfig& config, const Scratch& scratch, uint32_t group_idx) {
  const BetterScore better(scratch.selection);
  const uint32_t group_size = config.num_experts / config.num_groups;
  uint32_t best = group_idx * group_size;
  uint32_t second = config.num_experts;
  for (uint32_t expert_idx = best + 1; expert_idx < (group_idx + 1) * group_size; ++expert_idx) {
    if (better(expert_idx, best)) {
      second = best;
      best = expert_idx;
    } else if (second == config.num_experts || better(expert_idx, second)) {
      second = expert_idx;
    }
  }
  if (config.kind == RouterKind::softmax_topk || second == config.num_experts) return scratch.selection[best];
  return scratch.selection[best] + scratch.selection[second];
}

/// Fills scratch.experts with the experts of the best groups.
void collect_candidates(const RouterConfig& config, Scratch& scratch) {
  scratch.experts.resize(config.num_experts);
  std::iota(scratch.experts.begin(), scratch.experts.end(), 0U);
  if (config.num_top_groups == config.num_groups) return;
  for (uint32_t group_idx = 0; group_idx < config.num_groups; ++group_idx) {
    scratch.group_scores[group_idx] = group_score(config, scratch, group_idx);
  }
  std::iota(scratch.groups.begin(), scratch.groups.end(), 0U);
  std::partial_sort(scratch.groups.begin(), scratch.groups.begin() + config.num_top_groups, scratch.groups.end(),
                    BetterScore(scratch.group_scores));
  scratch.experts.clear();
  const uint32_t group_size = config.num_experts / config.num_groups;
  for (uint32_t i = 0; i < config.num_top_groups; ++i) {
    for (uint32_t k = 0; k < group_size; ++k) scratch.experts.push_back(scratch.groups[i] * group_size + k);
  }
}

void compute_weights(const RouterConfig& config, std::span<float> chosen) {
  if (config.kind == RouterKind::topk_softmax) {
    softmax(chosen.data(), chosen.size());
  } else if (config.renormalise) {
    const float total = std::accumulate(chosen.begin(), chosen.end(), 0.0F) + kSumFloor;
    for (float& weight : chosen) weight /= total;
  }
  for (float& weight : chosen) weight *= config.scale;
}

}  // namespace

Status route(const RouterConfig& config, const RouterWeights& weights, std::span<const Bf16> x, uint32_t num_tokens,
             std::span<int32_t> topk_ids, std::span<float> topk_weights) {
  MM_RETURN_IF_ERROR(router::check_config(config));
  MM_RETURN_IF_ERROR(router::check_weights(config, weights));
  MM_RETURN_IF_ERROR(router::check_rows(config, x.size(), num_tokens, topk_ids.size(), topk_weights.size()));
  Scratch scratch;
  scratch.x.resize(config.hidden);
  scratch.scores.resize(config.num_experts);
  scratch.group_scores.resize(config.num_groups);
  scratch.groups.resize(config.num_groups);
  for (size_t token = 0; token < num_tokens; ++token) {
    compute_logits(config, weights, x.data() + token * config.hidden, scratch);
    compute_scores(config, weights, scratch);
    collect_candidates(config, scratch);
    std::partial_sort(scratch.experts.begin(), scratch.experts.begin() + config.top_k, scratch.experts.end(),
                      BetterScore(scratch.selection));
    const std::span<float> chosen = topk_weights.subspan(token * config.top_k, config.top_k);
    for (uint32_t k = 0; k < config.top_k; ++k) {
      topk_ids[token * config.top_k + k] = static_cast<int32_t>(scratch.experts[k]);
      chosen[k] = scratch.scores[scratch.experts[k]];
    }
    compute_weights(config, chosen);
  }
  return {};
}

}  // namespace megamoe
