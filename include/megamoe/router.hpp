#pragma once

// The router: an optional step in front of the layer that turns token rows into expert ids and weights.

#include <cstdint>
#include <span>

#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

enum class RouterKind : uint8_t {
  softmax_topk,       ///< softmax over all experts, then top-k (Mixtral, Qwen3, DeepSeek-V2)
  topk_softmax,       ///< top-k on logits, then softmax over the chosen (gpt-oss)
  sigmoid_bias,       ///< sigmoid scores, selection by score + bias within the best groups (DeepSeek-V3, Kimi-K2, GLM)
  sqrt_softplus_bias  ///< sqrt(softplus(logit)) scores, selection by score + bias (DeepSeek-V4)
};

struct RouterConfig {
  RouterKind kind = RouterKind::softmax_topk;
  uint32_t hidden = 0;
  uint32_t num_experts = 0;
  uint32_t top_k = 0;
  bool renormalise = true;      ///< divide the chosen weights by their sum (kinds other than topk_softmax)
  float scale = 1.0F;           ///< multiplies the weights at the end
  uint32_t num_groups = 1;      ///< experts are split into this many equal groups ...
  uint32_t num_top_groups = 1;  ///< ... and only the best this many take part in the selection
};

/// Weights of the router. All FP32.
struct RouterWeights {
  std::span<const float> gate;            ///< [E, H]
  std::span<const float> logit_bias;      ///< [E], added to the logits (gpt-oss); may be empty
  std::span<const float> selection_bias;  ///< [E], added to scores for selection only; may be empty
};

/// Routes x [num_tokens, H] into ids [num_tokens, K] and weights [num_tokens, K]. Logits are FP32 sums of FP32 products
/// in column order; equal scores prefer the lower expert id. A token's result depends on that token alone.
Status route(const RouterConfig& config, const RouterWeights& weights, std::span<const Bf16> x, uint32_t num_tokens,
             std::span<int32_t> topk_ids, std::span<float> topk_weights);

}  // namespace megamoe
