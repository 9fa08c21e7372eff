#pragma once

// Every rule that a caller can break, checked before anything is allocated or run.

#include "flow/dims.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// Rules of the config alone.
Status validate_config(const LayerConfig& config);

/// Rules of one rank's part of a call, but for the values of its router ids: reads nothing that a span refers to.
/// `rank` begins the message.
Status validate_io(const LayerShape& shape, uint32_t max_tokens, uint32_t rank, uint32_t num_local_experts,
                   const RankInput& input, const RankOutput& output);

/// RankInput::topk_ids.
using RouterIds = decltype(RankInput::topk_ids);

/// The values of router ids [num_tokens, top_k], in host memory.
Status validate_ids(const LayerShape& shape, uint32_t rank, const RouterIds& topk_ids);

}  // namespace megamoe::internal
