#include "formats/model_config.hpp"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/strict_json.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

using nlohmann::json;

struct Range {
  uint64_t min;
  uint64_t max;
};

/// Reads keys one after the other and keeps the first error.
class ConfigReader {
 public:
  ConfigReader(std::string_view origin, const json& root) : origin_(origin), root_(root) {}

  const Status& status() const { return status_; }

  /// Null if the key is absent or null.
  const json* find(std::string_view key) const {
    const auto it = root_.find(key);
    return it == root_.end() || it->is_null() ? nullptr : &*it;
  }

  std::optional<uint32_t> integer(std::string_view key, Range range) {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<uint32_t> number = integer_in(*value, range);
    if (!number) {
      refuse(key, fmt::format("an integer from {} to {}", range.min, range.max), *value,
             "correct it or remove the key");
    }
    return number;
  }

  std::optional<float> positive(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : 0.0;
    const double max = std::numeric_limits<float>::max();
    const bool is_good = number >= std::numeric_limits<float>::min() && number <= max;
    if (!is_good) refuse(key, "a positive number within FP32", *value, "correct it or remove the key");
    return is_good ? std::optional(static_cast<float>(number)) : std::nullopt;
  }

  std::optional<bool> flag(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) {
      refuse(key, "true or false", *value, "correct it or remove the key");
      return std::nullopt;
    }
    return value->get<bool>();
  }

  std::string text(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) {
      refuse(key, "a string", *value, "correct it or remove the key");
      return {};
    }
    return value->get<std::string>();
  }

  std::optional<ScoringFunction> scoring(std::string_view key) {
    struct Row {
      std::string_view name;
      ScoringFunction function;
    };
    constexpr std::array kRows{Row{"softmax", ScoringFunction::softmax}, Row{"sigmoid", ScoringFunction::sigmoid},
                               Row{"sqrtsoftplus", ScoringFunction::sqrt_softplus}};
    const std::string name = text(key);
    for (const Row& row : kRows) {
      if (row.name == name) return row.function;
    }
    if (!name.empty()) refuse(key, "softmax, sigmoid or sqrtsoftplus", name, "route outside and pass ids and weights");
    return std::nullopt;
  }

  std::optional<ScaleBlock> weight_block() {
    const json* quantization = find("quantization_config");
    if (quantization == nullptr) return std::nullopt;
    if (!quantization->is_object()) {
      refuse("quantization_config", "an object", *quantization, "correct it or remove the key");
      return std::nullopt;
    }
    const auto it = quantization->find("weight_block_size");
    if (it == quantization->end() || it->is_null()) return std::nullopt;
    const Range range{1, kMaxModelColumns};
    const bool is_pair = it->is_array() && it->size() == 2;
    const auto rows = is_pair ? integer_in((*it)[0], range) : std::nullopt;
    const auto cols = is_pair ? integer_in((*it)[1], range) : std::nullopt;
    if (!rows || !cols) {
      refuse("quantization_config.weight_block_size", fmt::format("two integers from {} to {}", range.min, range.max),
             *it, "write [rows, columns] of one scale block");
      return std::nullopt;
    }
    return ScaleBlock{*rows, *cols};
  }

  void refuse(std::string_view key, std::string_view wanted, const json& value, std::string_view remedy,
              StatusCode code = StatusCode::invalid_file) {
    if (!status_.ok()) return;
    status_ = error(code, fmt::format("{}: {} must be {}", origin_, key, wanted), shown(value), remedy);
  }

 private:
  static std::optional<uint32_t> integer_in(const json& value, Range range) {
    if (!value.is_number_unsigned()) return std::nullopt;
    const auto number = value.get<uint64_t>();
    return number < range.min || number > range.max ? std::nullopt : std::optional(static_cast<uint32_t>(number));
  }

  std::string_view origin_;
  const json& root_;
  Status status_;
};

void read_expert_counts(ConfigReader& reader, ModelConfig& config) {
  for (const auto* key : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    const std::optional<uint32_t> count = reader.integer(key, {1, kMaxModelExperts});
    if (!count || config.num_experts) continue;
    config.num_experts = count;
    config.counts_routed_experts = std::string_view(key) == "n_routed_experts";
  }
  config.top_k = reader.integer("num_experts_per_tok", {1, kMaxModelTopK});
  config.num_shared_experts = reader.integer("n_shared_experts", {0, kMaxModelExperts});
  config.num_groups = reader.integer("n_group", {1, kMaxModelExperts});
  config.num_top_groups = reader.integer("topk_group", {1, kMaxModelExperts});
}

/// Rules between keys.
void check_relations(ConfigReader& reader, const ModelConfig& config) {
  if (!config.num_experts) return;
  const uint32_t num_experts = *config.num_experts;
  if (config.top_k && *config.top_k > num_experts) {
    reader.refuse("num_experts_per_tok", fmt::format("at most the number of experts, {}", num_experts), *config.top_k,
                  "correct one of the two");
  }
  const uint32_t num_groups = config.num_groups.value_or(1);
  if (num_experts % num_groups != 0) {
    reader.refuse("n_group", fmt::format("a divisor of the number of experts, {}", num_experts), num_groups,
                  "correct one of the two");
  }
  if (config.num_top_groups.value_or(1) > num_groups) {
    reader.refuse("topk_group", fmt::format("at most n_group, {}", num_groups), *config.num_top_groups,
                  "correct one of the two");
  }
}

void check_activation(ConfigReader& reader) {
  const std::string name = reader.text("hidden_act");
  if (name.empty() || name == "silu" || name == "swish" || name == "swiglu") return;
  reader.refuse("hidden_act", "silu", name, "only SwiGLU layers are supported", StatusCode::unsupported);
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view text, std::string_view origin) {
  const Result<json> root = parse_strict_json(text, origin);
  if (!root.ok()) return root.status();
  // Models that also see or hear keep the language model's keys one level down.
  const auto nested = root->find("text_config");
  const bool is_nested = nested != root->end() && nested->is_object() && !root->contains("hidden_size");
  ConfigReader reader(origin, is_nested ? *nested : *root);

  ModelConfig config;
  config.origin = origin;
  config.model_type = reader.text("model_type");
  config.hidden = reader.integer("hidden_size", {1, kMaxModelColumns});
  config.moe_intermediate = reader.integer("moe_intermediate_size", {1, kMaxModelColumns});
  config.intermediate = reader.integer("intermediate_size", {1, kMaxModelColumns});
  read_expert_counts(reader, config);
  config.scoring = reader.scoring("scoring_func");
  config.topk_method = reader.text("topk_method");
  config.renormalise = reader.flag("norm_topk_prob");
  config.routed_scale = reader.positive("routed_scaling_factor");
  config.swiglu_limit = reader.positive("swiglu_limit");
  config.weight_block = reader.weight_block();
  check_relations(reader, config);
  check_activation(reader);
  if (!reader.status().ok()) return reader.status();
  return config;
}

}  // namespace megamoe
