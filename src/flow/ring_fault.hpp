#pragma once

// What a fault record says about a wait for a ring of slots in shared memory (cuda/sync/ring.hpp).

#include "flow/fields.hpp"

namespace megamoe::flow {

/// FaultRecord::field of such a wait. Rings are not in the workspace, so these stand behind its fields. `index` is the
/// slot; `wanted` and `seen` count items that were filled, or released.
inline constexpr Field kRingFilled{kNumFields};
inline constexpr Field kRingReleased{kNumFields + 1U};

}  // namespace megamoe::flow
