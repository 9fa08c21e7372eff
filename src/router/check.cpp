#include "router/check.hpp"

#include <cmath>

namespace megamoe::router {
namespace {

constexpr uint32_t kMaxExperts = 1024;

Status check_size(std::string_view name, size_t got, size_t wanted, std::string_view remedy) {
  if (got == wanted) return {};
  return invalid_argument(fmt::format("{} must have {} values", name, wanted), got, remedy);
}

Status check_groups(const RouterConfig& config) {
  if (config.num_groups == 0 || config.num_groups > config.num_experts || config.num_experts % config.num_groups != 0) {
    return invalid_argument(fmt::format("num_groups must divide num_experts = {}", config.num_experts),
                            config.num_groups, "use 1 for a router without groups");
  }
  if (config.num_top_groups == 0 || config.num_top_groups > config.num_groups) {
    return invalid_argument(fmt::format("num_top_groups must be 1..{}", config.num_groups), config.num_top_groups,
                            "choose at most as many groups as there are");
  }
  if (config.num_groups > 1 && config.kind == RouterKind::topk_softmax) {
    return invalid_argument("num_groups must be 1 for topk_softmax", config.num_groups,
                            "this router has no groups: set num_groups and num_top_groups to 1");
  }
  const uint32_t num_candidates = config.num_experts / config.num_groups * config.num_top_groups;
  if (config.top_k > num_candidates) {
    return invalid_argument(fmt::format("top_k must be at most the {} experts of the best groups", num_candidates),
                            config.top_k, "raise num_top_groups");
  }
  return {};
}

}  // namespace

Status check_config(const RouterConfig& config) {
  if (config.hidden == 0) return invalid_argument("hidden must be positive", config.hidden, "set the width of x");
  if (config.num_experts == 0 || config.num_experts > kMaxExperts) {
    return invalid_argument(fmt::format("num_experts must be 1..{}", kMaxExperts), config.num_experts,
                            "set the number of routed experts");
  }
  if (config.top_k == 0 || config.top_k > config.num_experts) {
    return invalid_argument(fmt::format("top_k must be 1..{}", config.num_experts), config.top_k,
                            "choose at most as many experts as there are");
  }
  if (!std::isfinite(config.scale)) {
    return invalid_argument("scale must be finite", config.scale, "use 1 for no scaling");
  }
  return check_groups(config);
}

Status check_weights(const RouterConfig& config, const RouterWeights& weights) {
  MM_RETURN_IF_ERROR(check_size("gate", weights.gate.size(), size_t{config.num_experts} * config.hidden,
                                "pass the whole [num_experts, hidden] matrix"));
  if (!weights.logit_bias.empty()) {
    MM_RETURN_IF_ERROR(
        check_size("logit_bias", weights.logit_bias.size(), config.num_experts, "pass one per expert, or none at all"));
  }
  if (weights.selection_bias.empty()) return {};
  if (config.kind == RouterKind::softmax_topk || config.kind == RouterKind::topk_softmax) {
    return invalid_argument("selection_bias must be empty for softmax routers",
                            fmt::format("{} values", weights.selection_bias.size()),
                            "use sigmoid_bias or sqrt_softplus_bias, or drop the bias");
  }
  return check_size("selection_bias", weights.selection_bias.size(), config.num_experts,
                    "pass one per expert, or none at all");
}

Status check_rows(const RouterConfig& config, size_t num_x, uint32_t num_tokens, size_t num_ids, size_t num_weights) {
  const size_t num_choices = size_t{num_tokens} * config.top_k;
  MM_RETURN_IF_ERROR(
      check_size("x", num_x, size_t{num_tokens} * config.hidden, "pass num_tokens rows of hidden values"));
  MM_RETURN_IF_ERROR(check_size("topk_ids", num_ids, num_choices, "size it num_tokens * top_k"));
  return check_size("topk_weights", num_weights, num_choices, "size it num_tokens * top_k");
}

}  // namespace megamoe::router
