#include "emu/polls.hpp"

#include <algorithm>
#include <cstring>

namespace megamoe::emu {

uint64_t peek(const void* address, uint32_t num_bytes) {
  uint64_t value = 0;
  std::memcpy(&value, address, std::min<uint32_t>(num_bytes, sizeof value));
  return value;
}

void note_poll(PollSet& polls, const void* address, uint32_t num_bytes, uint64_t seen) {
  for (uint32_t i = 0; i < polls.num_entries; ++i) {
    PollSet::Entry& entry = polls.entries[i];
    if (entry.address != address || entry.num_bytes != num_bytes) continue;
    if (entry.seen == seen) {
      ++polls.num_repeats;
    } else {
      entry.seen = seen;
      polls.num_repeats = 0;
    }
    return;
  }
  // More addresses than there is room for: a walk, not a poll.
  if (polls.num_entries == polls.entries.size()) forget_polls(polls);
  polls.entries[polls.num_entries++] = {address, num_bytes, seen};
  polls.num_repeats = 0;
}

bool has_changed(const PollSet& polls) {
  for (uint32_t i = 0; i < polls.num_entries; ++i) {
    const PollSet::Entry& entry = polls.entries[i];
    if (peek(entry.address, entry.num_bytes) != entry.seen) return true;
  }
  return false;
}

}  // namespace megamoe::emu
