#pragma once

// What one MoE layer of a checkpoint is, and proof that its tensors agree with each other and with config.json.

#include <optional>

#include "formats/naming.hpp"
#include "megamoe/checkpoint.hpp"

namespace megamoe {

struct LayerSurvey {
  LayerTensors tensors;
  MoeLayerInfo info;
  ScaleBlock block;  ///< of every FP8 projection of the layer; zeros if it has none
};

/// Errors: invalid_file (tensors that contradict each other, the config or the family's form). Absent tensors are no
/// error here: they are listed in info.missing.
Result<LayerSurvey> survey_layer(LayerTensors tensors, const std::optional<ModelConfig>& config);

}  // namespace megamoe
