#pragma once

// Every rule that a caller can break, checked before anything is allocated or run.

#include "flow/dims.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// Rules of the config alone.
Status validate_config(const LayerConfig& config);

/// Rules of one rank's part of a call. `rank` begins the message.
Status validate_io(const LayerShape& shape, uint32_t max_tokens, uint32_t rank, uint32_t num_local_experts,
                   const RankInput& input, const RankOutput& output);

}  // namespace megamoe::internal
