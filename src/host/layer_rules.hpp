#pragma once

// The rules of one layer that every backend follows.

#include <chrono>

#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/quantise.hpp"
#include "flow/route.hpp"
#include "flow/workspace.hpp"

namespace megamoe {

/// What all ranks and calls of a layer share. Fixed at creation.
struct LayerRules {
  flow::Dims dims;
  flow::WorkspaceLayout layout;
  flow::Placement placement;
  flow::ActivationRule activation;
  flow::ScaleRule scale_rule = flow::ScaleRule::fp32;
  flow::RouterWeightRule weight_rule = flow::RouterWeightRule::before_gemm2;
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds start_timeout{};

  /// What follows from the dims, and defaults.
  static LayerRules of(const flow::Dims& dims) {
    LayerRules rules;
    rules.dims = dims;
    rules.layout = flow::WorkspaceLayout::of(dims);
    rules.placement = flow::Placement::of(dims);
    return rules;
  }
};

}  // namespace megamoe
