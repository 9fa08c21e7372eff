#pragma once

// Checkpoints: safetensors files with the tensor names of DeepSeek V2/V3, V4, Qwen3, Mixtral and gpt-oss.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megamoe/megamoe.hpp"
#include "megamoe/router.hpp"
#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// Which model family's tensor names a layer was recognised by.
enum class Naming : uint8_t { deepseek_v3, deepseek_v4, qwen3, mixtral, gpt_oss };
std::string_view to_string(Naming naming);

/// One MoE layer found in a checkpoint.
struct MoeLayerInfo {
  uint32_t layer_idx = 0;
  Naming naming = Naming::deepseek_v3;
  LayerShape shape;                           ///< top_k is 0 when no config says it
  WeightFormat format = WeightFormat::bf16;   ///< of the routed experts
  std::optional<WeightFormat> shared_format;  ///< of the shared experts, if any
  uint32_t block_rows = 0;                    ///< scale block of the routed experts (0 for bf16)
  uint32_t block_cols = 0;
  bool e8m0_scales = false;
  GateUpLayout layout = GateUpLayout::separate;
  bool has_biases = false;
  std::optional<RouterConfig> router;  ///< present when the file holds router weights and the config says how
  ActivationOptions activation;        ///< from the config (gpt-oss: alpha 1.702, limit 7, up offset 1)
  std::vector<std::string> missing;    ///< what a complete layer would need and the file does not have
  std::vector<std::string> unknown;    ///< tensors of the layer whose meaning the naming does not define
};

/// Weights of one layer, opened from a checkpoint. Tensors stay in the mapped file.
class CheckpointLayer : public WeightSource {
 public:
  virtual const MoeLayerInfo& info() const = 0;
  /// Router weights as FP32; empty gate if the file has none.
  virtual RouterWeights router_weights() const = 0;
};

/// A checkpoint: one .safetensors file, a model.safetensors.index.json, or a folder holding either; config.json beside
/// it is read if present. Everything is validated before it is believed.
class Checkpoint {
 public:
  /// Errors: not_found, invalid_file (says tensor, rule, value).
  static Result<Checkpoint> open(const std::string& path);

  /// Every MoE layer found, in layer order.
  const std::vector<MoeLayerInfo>& layers() const;
  /// Errors: not_found (lists the layers there are); invalid_file (lists what is missing); unsupported
  /// (lists what is unknown).
  Result<std::unique_ptr<CheckpointLayer>> layer(uint32_t layer_idx) const;
  /// Bytes and number of tensors over all shards.
  uint64_t num_bytes() const;
  uint64_t num_tensors() const;
  const std::string& path() const;

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

 private:
  struct State;
  explicit Checkpoint(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace megamoe
