#pragma once

// How model families name the tensors of a MoE layer: one table, read in both directions.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_config.hpp"
#include "formats/tensor_store.hpp"
#include "megamoe/checkpoint.hpp"

namespace megamoe {

enum class Projection : uint8_t { gate, up, down, gate_up };
inline constexpr size_t kNumProjections = 4;
inline constexpr std::array kSeparateProjections{Projection::gate, Projection::up, Projection::down};
inline constexpr std::array kStackedProjections{Projection::gate_up, Projection::down};

/// Whether each expert has tensors of its own or all experts stand in one tensor, [E, ...].
enum class ExpertStorage : uint8_t { per_expert, stacked };

/// One row of the table. A tensor's full name is prefix + module + "." + the rest, where the rest is one of
///   experts.<e>.<projection><suffix>   (per_expert)
///   experts.<projection><suffix>       (stacked)
///   <shared>.<projection><suffix>
///   <router name>
/// An empty string means that the family has no such tensor.
struct NamingRule {
  Naming naming;
  ExpertStorage storage;
  std::string_view module;                                    ///< "mlp"
  std::array<std::string_view, kNumProjections> projections;  ///< by Projection
  std::string_view weight_suffix;  ///< stacked weights without it are transposed: [E, columns, rows]
  std::string_view scale_suffix;
  std::string_view bias_suffix = "";
  std::string_view shared = "";  ///< "shared_experts"
  std::string_view router_weight;
  std::string_view selection_bias = "";
  std::string_view logit_bias = "";
  std::string_view token_table = "";  ///< router by token id: needs no bias
};

/// Tensors of one projection; null where the file has none.
struct ProjectionTensors {
  const TensorView* weight = nullptr;
  const TensorView* scale = nullptr;
  const TensorView* bias = nullptr;
  bool is_transposed = false;  ///< weight has the unpacked form
};
using ExpertTensors = std::array<ProjectionTensors, kNumProjections>;

/// Every tensor of one MoE layer, sorted into its place.
struct LayerTensors {
  uint32_t layer_idx = 0;
  std::string prefix;  ///< "model.layers.3.mlp."
  const NamingRule* rule = nullptr;
  std::vector<ExpertTensors> experts;  ///< per_expert: as many as the highest index needs; stacked: one
  ExpertTensors shared;
  const TensorView* router_weight = nullptr;
  const TensorView* selection_bias = nullptr;
  const TensorView* logit_bias = nullptr;
  const TensorView* token_table = nullptr;
  std::vector<std::string> unknown;  ///< stand in the layer and have no place

  bool is_stacked() const { return rule->storage == ExpertStorage::stacked; }
  bool has_shared() const;
};

/// Finds every MoE layer, in layer order. Errors: invalid_file (one layer index under two prefixes; too many experts).
Result<std::vector<LayerTensors>> find_layers(const TensorStore& store, const std::optional<ModelConfig>& config);

/// "model.layers.3.mlp.experts.7.gate_proj" (per_expert) or "...experts.gate_up_proj" (stacked).
std::string expert_name(const LayerTensors& layer, uint32_t expert_idx, Projection projection);
std::string shared_name(const LayerTensors& layer, Projection projection);

}  // namespace megamoe
