#pragma once

// Moves threads to the places of a ThreadMap. Two kinds of thread: the library's own, which stay where they last
// worked, and the caller's, which get back what they had. Calls of a layer go through here, so nothing allocates.

#include "megamoe/status.hpp"
#include "topology/thread_map.hpp"

namespace megamoe::topology {

/// Binds the calling thread, one of the library's, to `place`; null frees it to where it was before its first place. A
/// thread that is there already asks the system nothing. Where the system refuses, the thread runs where it may.
void move_to(const Place* place);

/// The calling thread is at `place` while this lives; null changes nothing.
class Visit {
 public:
  explicit Visit(const Place* place);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// False when the system refused. REQUIRES a place.
  bool is_there() const { return before_.has_value(); }

 private:
  std::optional<CpuMask> before_;  // none when nothing was changed
};

/// Whether threads can be bound as the map says, tried with the calling one. Errors: unsupported.
Status try_binding(const ThreadMap& map, Pin pin);

}  // namespace megamoe::topology
