#pragma once

// Finding out that a lane spins. A lane that reads the same values from the same addresses again and again, and does
// nothing else, is put aside until one of them changes: spinning would cost time, and deadlocks would look busy.

#include <cstdint>

#include "emu/state.hpp"

namespace megamoe::emu {

/// A poll loop is told from an ordinary second look after this many reads without news.
inline constexpr uint32_t kNumRepeatsOfPoll = 3;

/// Notes that the running lane read `seen` at `address`.
void note_poll(PollSet& polls, const void* address, uint32_t num_bytes, uint64_t seen);
inline void forget_polls(PollSet& polls) {
  polls.num_entries = 0;
  polls.num_repeats = 0;
}
inline bool is_spinning(const PollSet& polls) { return polls.num_repeats >= kNumRepeatsOfPoll; }
/// Whether memory differs from what the lane saw.
bool has_changed(const PollSet& polls);
/// The low `num_bytes` (at most 8) at `address`.
uint64_t peek(const void* address, uint32_t num_bytes);

}  // namespace megamoe::emu
