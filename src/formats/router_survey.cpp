#include "formats/router_survey.hpp"

#include <fmt/ranges.h>

#include "formats/quote.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

constexpr float kGptOssAlpha = 1.702F;
constexpr float kGptOssLimit = 7.0F;
constexpr float kGptOssUpOffset = 1.0F;

Status check_floats(const TensorView* tensor, const std::vector<uint64_t>& shape) {
  if (tensor == nullptr) return {};
  if (tensor->shape == shape && (tensor->dtype == Dtype::f32 || tensor->dtype == Dtype::bf16)) return {};
  return invalid_file(
      fmt::format("tensor {} must be F32 or BF16 [{}]", quote_name(tensor->name), fmt::join(shape, ", ")),
      describe(*tensor), "check that config.json and the file are of one model");
}

/// The config's word counts; without one, the family's habit.
RouterKind router_kind(const LayerTensors& tensors, const ModelConfig& config) {
  if (tensors.rule->naming == Naming::gpt_oss) return RouterKind::topk_softmax;
  if (config.scoring) {
    switch (*config.scoring) {
      case ScoringFunction::softmax: return RouterKind::softmax_topk;
      case ScoringFunction::sigmoid: return RouterKind::sigmoid_bias;
      case ScoringFunction::sqrt_softplus: return RouterKind::sqrt_softplus_bias;
    }
  }
  if (tensors.rule->naming == Naming::deepseek_v4) return RouterKind::sqrt_softplus_bias;
  return tensors.selection_bias != nullptr ? RouterKind::sigmoid_bias : RouterKind::softmax_topk;
}

/// What norm_topk_prob means where the config does not say it.
bool renormalises_by_habit(Naming naming, RouterKind kind) {
  return naming == Naming::mixtral || kind != RouterKind::softmax_topk;
}

bool needs_selection_bias(RouterKind kind, const ModelConfig& config) {
  return (kind == RouterKind::sigmoid_bias || kind == RouterKind::sqrt_softplus_bias) &&
         config.topk_method == "noaux_tc";
}

ActivationOptions activation_of(Naming naming, const std::optional<ModelConfig>& config) {
  ActivationOptions options;
  if (config) options.limit = config->swiglu_limit;
  if (naming == Naming::gpt_oss) {
    options.alpha = kGptOssAlpha;
    options.up_offset = kGptOssUpOffset;
    if (!options.limit) options.limit = kGptOssLimit;
    // The down bias is weighted too, which only the partial result's weight can do.
    options.router_weight = RouterWeightPosition::at_combine;
  }
  return options;
}

}  // namespace

Status survey_router(const LayerTensors& tensors, const std::optional<ModelConfig>& config, MoeLayerInfo& info) {
  info.activation = activation_of(info.naming, config);
  const uint64_t num_experts = info.shape.num_experts;
  MM_RETURN_IF_ERROR(check_floats(tensors.selection_bias, {num_experts}));
  MM_RETURN_IF_ERROR(check_floats(tensors.logit_bias, {num_experts}));
  if (tensors.router_weight == nullptr) return {};
  MM_RETURN_IF_ERROR(check_floats(tensors.router_weight, {num_experts, info.shape.hidden}));
  if (!tensors.rule->logit_bias.empty() && tensors.logit_bias == nullptr) {
    info.missing.push_back(tensors.prefix + std::string(tensors.rule->logit_bias));
  }
  // A layer that looks its experts up by token id cannot be routed from activations.
  if (!config || !config->top_k || tensors.token_table != nullptr) return {};

  const RouterKind kind = router_kind(tensors, *config);
  if (needs_selection_bias(kind, *config) && tensors.selection_bias == nullptr) {
    info.missing.push_back(tensors.prefix + std::string(tensors.rule->selection_bias));
  }
  RouterConfig router;
  router.kind = kind;
  router.hidden = info.shape.hidden;
  router.num_experts = info.shape.num_experts;
  router.top_k = *config->top_k;
  router.renormalise = config->renormalise.value_or(renormalises_by_habit(info.naming, kind));
  router.scale = config->routed_scale.value_or(1.0F);
  if (config->topk_method != "greedy") {
    router.num_groups = config->num_groups.value_or(1);
    router.num_top_groups = config->num_top_groups.value_or(router.num_groups);
  }
  info.router = router;
  return {};
}

}  // namespace megamoe
