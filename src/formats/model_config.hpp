#pragma once

// The part of a Hugging Face style config.json that a MoE layer needs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

/// Limits of what a config may say; what lies beyond is a damaged or hostile file.
inline constexpr uint32_t kMaxModelColumns = 1U << 20;
inline constexpr uint32_t kMaxModelExperts = 1024;
inline constexpr uint32_t kMaxModelTopK = 32;

enum class ScoringFunction : uint8_t { softmax, sigmoid, sqrt_softplus };

/// Rows and columns that one FP8 scale covers.
struct ScaleBlock {
  uint32_t rows = 0;
  uint32_t cols = 0;
  friend bool operator==(ScaleBlock, ScaleBlock) = default;
};

/// Absent keys (and null ones) are absent here.
struct ModelConfig {
  std::string origin;      ///< stands in messages
  std::string model_type;  ///< "" when absent
  std::optional<uint32_t> hidden;
  std::optional<uint32_t> moe_intermediate;
  std::optional<uint32_t> intermediate;  ///< of dense layers too, where moe_intermediate_size exists
  std::optional<uint32_t> num_experts;
  bool counts_routed_experts = false;  ///< the key was n_routed_experts, DeepSeek's word
  std::optional<uint32_t> top_k;
  std::optional<uint32_t> num_shared_experts;
  std::optional<uint32_t> num_groups;
  std::optional<uint32_t> num_top_groups;
  std::optional<ScoringFunction> scoring;
  std::string topk_method;  ///< "" when absent
  std::optional<bool> renormalise;
  std::optional<float> routed_scale;
  std::optional<float> swiglu_limit;
  std::optional<ScaleBlock> weight_block;
};

/// Errors: invalid_file (JSON, or a key's type or range; names key, rule, value, remedy); unsupported (hidden_act).
Result<ModelConfig> parse_model_config(std::string_view text, std::string_view origin);

}  // namespace megamoe
