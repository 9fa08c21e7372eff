#pragma once

// Hands out the weights of one surveyed layer.

#include <memory>

#include "formats/layer_survey.hpp"
#include "megamoe/checkpoint.hpp"

namespace megamoe {

/// `owner` keeps the mapped files that `survey` points into. Errors: invalid_file (tensors missing; shared experts that
/// cannot be cut along scale blocks), unsupported (tensors of unknown meaning).
Result<std::unique_ptr<CheckpointLayer>> make_checkpoint_layer(std::shared_ptr<const void> owner,
                                                               const LayerSurvey& survey);

}  // namespace megamoe
