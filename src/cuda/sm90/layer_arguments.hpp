#pragma once

// What is the same in every call of a layer, as the kernels of one rank take it. Host only.

#include <algorithm>
#include <chrono>
#include <span>

#include "cuda/sm90/arguments.hpp"
#include "host/layer_rules.hpp"

namespace megamoe::sm90 {

/// `bases` [num_ranks], at most kMaxPeers: the workspaces as this rank addresses them. The caller adds weights and what
/// belongs to a call.
inline Arguments layer_arguments(const LayerRules& rules, std::span<std::byte* const> bases, uint32_t rank) {
  Arguments arguments;
  arguments.dims = rules.dims;
  arguments.layout = rules.layout;
  std::copy(bases.begin(), bases.end(), arguments.bases);
  arguments.rank = flow::Rank{rank};
  arguments.activation = rules.activation;
  arguments.scale_rule = rules.scale_rule;
  arguments.weight_rule = rules.weight_rule;
  arguments.timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(rules.timeout).count());
  return arguments;
}

}  // namespace megamoe::sm90
