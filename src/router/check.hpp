#pragma once

// What the router demands of its arguments.

#include "host/errors.hpp"
#include "megamoe/router.hpp"

namespace megamoe::router {

/// Errors: hidden, num_experts or top_k out of range; groups that do not divide the experts, that leave fewer than
/// top_k candidates, or that the kind does not know; a scale that is not finite.
Status check_config(const RouterConfig& config);
/// Errors: a size that does not fit; a selection bias for a kind without one.
Status check_weights(const RouterConfig& config, const RouterWeights& weights);
/// Errors: a size that does not fit num_tokens.
Status check_rows(const RouterConfig& config, size_t num_x, uint32_t num_tokens, size_t num_ids, size_t num_weights);

}  // namespace megamoe::router
