#pragma once

// Which router a layer has, and how its family activates.

#include <optional>

#include "formats/naming.hpp"
#include "megamoe/checkpoint.hpp"
#include "megamoe/status.hpp"

namespace megamoe {

/// Fills info.router, info.activation and the router's part of info.missing. REQUIRES info.shape and info.naming.
/// Errors: invalid_file (router tensors of a wrong shape or dtype).
Status survey_router(const LayerTensors& tensors, const std::optional<ModelConfig>& config, MoeLayerInfo& info);

}  // namespace megamoe
