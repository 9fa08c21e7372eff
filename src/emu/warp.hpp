#pragma once

// Warp collectives. Every lane that the mask names must arrive at the same operation with the same mask; anything else,
// also a named lane that has exited, is a divergent_collective finding.

#include <cstdint>

#include "emu/findings.hpp"

namespace megamoe::emu {

enum class WarpOperation : uint8_t {
  sync,
  elect,
  shuffle_index,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  match_any,
  reduce_add,
  reduce_add_signed,
  reduce_min,
  reduce_min_signed,
  reduce_max,
  reduce_max_signed,
  reduce_and,
  reduce_or,
  reduce_xor,
};

/// Waits for the lanes of `mask` and returns this lane's result. `argument` is the source lane, delta or lane mask of a
/// shuffle, with the segment width in the upper 16 bits.
uint64_t warp_collective(WarpOperation operation, uint32_t mask, uint64_t value, uint32_t argument, const Where& where);

/// Called when a lane exits: those who wait for it will wait forever.
void check_collectives_at_exit(const struct Lane& lane);

/// Waits for all 128 lanes of this lane's warpgroup, which must all come with the same `name` and `argument`; the last
/// one to arrive runs `finish` on the payloads in order of lanes, while the others stand still.
void warpgroup_collective(const char* name, uint64_t argument, void* payload,
                          void (*finish)(void* const payloads[128], void* context), void* context, const Where& where);

}  // namespace megamoe::emu
