#pragma once

// Order between the launches of one stream: programmatic dependent launch.

#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/barriers.hpp"
#endif

namespace megamoe::simt {

/// Waits until every earlier launch of the stream has ended and its writes are visible. Returns at once in an ordinary
/// launch.
MM_DEVICE void wait_for_earlier_grid(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  emu::wait_for_earlier_grid(where);
#endif
}

/// The next launch may start once all blocks have said so (or ended).
MM_DEVICE void launch_dependents(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#else
  emu::launch_dependents(where);
#endif
}

}  // namespace megamoe::simt
