#include "formats/naming.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "formats/quote.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

// Rows of one module are told apart by choose_rule(). MiniMax uses Mixtral's names with scales and a selection bias.
constexpr std::array kRules{
    NamingRule{.naming = Naming::deepseek_v3,
               .storage = ExpertStorage::per_expert,
               .module = "mlp",
               .projections = {"gate_proj", "up_proj", "down_proj", ""},
               .weight_suffix = ".weight",
               .scale_suffix = ".weight_scale_inv",
               .shared = "shared_experts",
               .router_weight = "gate.weight",
               .selection_bias = "gate.e_score_correction_bias"},
    NamingRule{.naming = Naming::deepseek_v4,
               .storage = ExpertStorage::per_expert,
               .module = "ffn",
               .projections = {"w1", "w3", "w2", ""},
               .weight_suffix = ".weight",
               .scale_suffix = ".scale",
               .shared = "shared_experts",
               .router_weight = "gate.weight",
               .selection_bias = "gate.bias",
               .token_table = "gate.tid2eid"},
    NamingRule{.naming = Naming::qwen3,
               .storage = ExpertStorage::per_expert,
               .module = "mlp",
               .projections = {"gate_proj", "up_proj", "down_proj", ""},
               .weight_suffix = ".weight",
               .scale_suffix = ".weight_scale_inv",
               .router_weight = "gate.weight"},
    NamingRule{.naming = Naming::mixtral,
               .storage = ExpertStorage::per_expert,
               .module = "block_sparse_moe",
               .projections = {"w1", "w3", "w2", ""},
               .weight_suffix = ".weight",
               .scale_suffix = ".weight_scale_inv",
               .router_weight = "gate.weight",
               .selection_bias = "e_score_correction_bias"},
    NamingRule{.naming = Naming::gpt_oss,
               .storage = ExpertStorage::stacked,
               .module = "mlp",
               .projections = {"", "", "down_proj", "gate_up_proj"},
               .weight_suffix = "_blocks",
               .scale_suffix = "_scales",
               .bias_suffix = "_bias",
               .router_weight = "router.weight",
               .logit_bias = "router.bias"},
};

constexpr std::array<std::string_view, 4> kModelPrefixes{"model.", "", "language_model.model.",
                                                         "model.language_model."};

/// Takes `head` off the front of `text` if it stands there.
bool take(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

/// Takes a decimal number without leading zeros and the dot behind it.
std::optional<uint32_t> take_index(std::string_view& text) {
  uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto num_digits = static_cast<size_t>(end - text.data());
  if (failure != std::errc() || num_digits == text.size() || *end != '.') return std::nullopt;
  if (text[0] == '0' && num_digits > 1) return std::nullopt;
  text.remove_prefix(num_digits + 1);
  return value;
}

struct Part {
  std::string_view name;  // behind the prefix
  const TensorView* tensor;
};

/// The tensors of one module of one layer, not yet understood.
struct Module {
  uint32_t layer_idx = 0;
  std::string_view name;
  std::vector<Part> parts;

  bool has(std::string_view head) const {
    return std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name.starts_with(head); });
  }
};

bool is_moe(const Module& module) {
  return module.has("experts.") || module.has("gate.weight") || module.has("router.weight");
}

/// Prefix ("model.layers.3.mlp.") -> module, for every module whose name stands in the table.
std::map<std::string_view, Module> split_into_modules(const TensorStore& store) {
  std::map<std::string_view, Module> modules;
  for (const TensorView* tensor : store.tensors()) {
    const std::string_view full = tensor->name;
    for (const std::string_view model_prefix : kModelPrefixes) {
      std::string_view rest = full;
      if (!take(rest, model_prefix) || !take(rest, "layers.")) continue;
      const std::optional<uint32_t> layer_idx = take_index(rest);
      const std::string_view name = rest.substr(0, rest.find('.'));
      if (!layer_idx || name.size() == rest.size()) continue;
      const auto is_named = [&](const NamingRule& rule) { return rule.module == name; };
      if (std::none_of(kRules.begin(), kRules.end(), is_named)) continue;
      rest.remove_prefix(name.size() + 1);
      Module& module = modules[full.substr(0, full.size() - rest.size())];
      module.layer_idx = *layer_idx;
      module.name = name;
      module.parts.push_back({rest, tensor});
    }
  }
  return modules;
}

const NamingRule& rule_of(Naming naming) {
  return *std::find_if(kRules.begin(), kRules.end(), [&](const NamingRule& rule) { return rule.naming == naming; });
}

/// REQUIRES the module's name stands in the table.
const NamingRule& choose_rule(const Module& module, const std::optional<ModelConfig>& config) {
  if (module.name == "mlp") {
    const bool is_stacked = module.has("experts.gate_up_proj") || module.has("experts.down_proj");
    if (is_stacked || module.has("router.")) return rule_of(Naming::gpt_oss);
    const bool is_deepseek = module.has("shared_experts.") || module.has("gate.e_score_correction_bias") ||
                             (config && config->counts_routed_experts);
    return rule_of(is_deepseek ? Naming::deepseek_v3 : Naming::qwen3);
  }
  return *std::find_if(kRules.begin(), kRules.end(),
                       [&](const NamingRule& rule) { return rule.module == module.name; });
}

/// Sorts the parts of one module into a LayerTensors.
class Sorter {
 public:
  explicit Sorter(const NamingRule& rule) : rule_(rule) { layer_.rule = &rule; }

  Status add(const Part& part) {
    std::string_view rest = part.name;
    if (const TensorView** place = router_place(rest)) {
      *place = part.tensor;
      return {};
    }
    ExpertTensors* expert = nullptr;
    if (take(rest, "experts.")) {
      Result<ExpertTensors*> found = expert_place(rest, part);
      if (!found.ok()) return found.status();
      expert = *found;
    } else if (!rule_.shared.empty() && take(rest, rule_.shared) && take(rest, ".")) {
      expert = &layer_.shared;
    }
    if (expert == nullptr || !place_in(*expert, rest, part.tensor)) layer_.unknown.push_back(part.tensor->name);
    return {};
  }

  LayerTensors take_layer() { return std::move(layer_); }

 private:
  const TensorView** router_place(std::string_view name) {
    if (name.empty()) return nullptr;
    if (name == rule_.router_weight) return &layer_.router_weight;
    if (name == rule_.selection_bias) return &layer_.selection_bias;
    if (name == rule_.logit_bias) return &layer_.logit_bias;
    if (name == rule_.token_table) return &layer_.token_table;
    return nullptr;
  }

  /// Null if the name holds no index.
  Result<ExpertTensors*> expert_place(std::string_view& rest, const Part& part) {
    uint32_t expert_idx = 0;
    if (rule_.storage == ExpertStorage::per_expert) {
      const std::optional<uint32_t> index = take_index(rest);
      if (!index) return static_cast<ExpertTensors*>(nullptr);
      if (*index >= kMaxModelExperts) {
        return invalid_file(
            fmt::format("tensor {}: expert index must be below {}", quote_name(part.tensor->name), kMaxModelExperts),
            *index, "check that this is the right file");
      }
      expert_idx = *index;
    }
    if (expert_idx >= layer_.experts.size()) layer_.experts.resize(expert_idx + 1);
    return &layer_.experts[expert_idx];
  }

  bool place_in(ExpertTensors& expert, std::string_view rest, const TensorView* tensor) const {
    for (size_t projection = 0; projection < kNumProjections; ++projection) {
      std::string_view suffix = rest;
      if (rule_.projections[projection].empty() || !take(suffix, rule_.projections[projection])) continue;
      ProjectionTensors& place = expert[projection];
      if (suffix == rule_.weight_suffix) return put(place.weight, tensor);
      if (suffix == rule_.scale_suffix) return put(place.scale, tensor);
      if (!rule_.bias_suffix.empty() && suffix == rule_.bias_suffix) return put(place.bias, tensor);
      if (rule_.storage == ExpertStorage::stacked && suffix.empty()) {
        place.is_transposed = place.weight == nullptr;
        return put(place.weight, tensor);
      }
    }
    return false;
  }

  /// False if the place is taken: a packed and an unpacked weight of one projection.
  static bool put(const TensorView*& place, const TensorView* tensor) {
    if (place != nullptr) return false;
    place = tensor;
    return true;
  }

  const NamingRule& rule_;
  LayerTensors layer_;
};

}  // namespace

bool LayerTensors::has_shared() const {
  return std::any_of(shared.begin(), shared.end(),
                     [](const ProjectionTensors& part) { return part.weight != nullptr || part.scale != nullptr; });
}

Result<std::vector<LayerTensors>> find_layers(const TensorStore& store, const std::optional<ModelConfig>& config) {
  std::map<uint32_t, LayerTensors> layers;
  for (const auto& [prefix, module] : split_into_modules(store)) {
    if (!is_moe(module)) continue;
    Sorter sorter(choose_rule(module, config));
    for (const Part& part : module.parts) MM_RETURN_IF_ERROR(sorter.add(part));
    LayerTensors layer = sorter.take_layer();
    layer.layer_idx = module.layer_idx;
    layer.prefix = prefix;
    const auto [it, is_new] = layers.emplace(module.layer_idx, std::move(layer));
    if (!is_new) {
      return invalid_file(fmt::format("layer {} must stand under one prefix", module.layer_idx),
                          fmt::format("{} and {}", quote_name(it->second.prefix), quote_name(prefix)),
                          "split the file by model");
    }
  }
  std::vector<LayerTensors> list;
  for (auto& [layer_idx, layer] : layers) list.push_back(std::move(layer));
  return list;
}

std::string expert_name(const LayerTensors& layer, uint32_t expert_idx, Projection projection) {
  const std::string_view name = layer.rule->projections[static_cast<size_t>(projection)];
  if (layer.is_stacked()) return fmt::format("{}experts.{}", layer.prefix, name);
  return fmt::format("{}experts.{}.{}", layer.prefix, expert_idx, name);
}

std::string shared_name(const LayerTensors& layer, Projection projection) {
  return fmt::format("{}{}.{}", layer.prefix, layer.rule->shared,
                     layer.rule->projections[static_cast<size_t>(projection)]);
}

}  // namespace megamoe
