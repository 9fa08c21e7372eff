#pragma once

// Which source row stands at the j-th place of an expert's run in the pool.
//
// Places rotate over the source ranks that still have rows, beginning at `first_rank` (the owner's right neighbour), so
// that every link carries rows from the first place on and no two owners begin at the same source.

#include "flow/dims.hpp"

namespace megamoe::flow {

struct PullSource {
  Rank rank{};
  uint32_t list_idx = 0;  ///< in source_slot[local expert][rank]
};

/// Where owner `owner` begins its rotation.
MM_HOST_DEVICE constexpr Rank pull_first_rank(Rank owner, uint32_t num_ranks) {
  return Rank{(num(owner) + 1U) % num_ranks};
}

/// REQUIRES place < sum of counts[0..num_ranks). `counts` is whatever has counts[r].
///
/// Peels off whole rounds: with `active` ranks that have more than `depth` rows left, the next (smallest count - depth)
/// rounds take one row of each; inside them the place is a division and a remainder.
template <class Counts>
MM_HOST_DEVICE PullSource pull_source(const Counts& counts, uint32_t num_ranks, Rank first_rank, uint32_t place) {
  uint32_t depth = 0;
  while (true) {
    uint32_t num_active = 0;
    uint32_t next_depth = 0xFFFFFFFFU;
    for (uint32_t r = 0; r < num_ranks; ++r) {
      if (counts[r] > depth) {
        ++num_active;
        next_depth = min_of(next_depth, counts[r]);
      }
    }
    const uint64_t places = uint64_t{num_active} * (next_depth - depth);
    if (place >= places) {
      place -= static_cast<uint32_t>(places);
      depth = next_depth;
      continue;
    }
    uint32_t turn = place % num_active;
    for (uint32_t i = 0; i < num_ranks; ++i) {
      const uint32_t r = (num(first_rank) + i) % num_ranks;
      if (counts[r] > depth && turn-- == 0U) return {Rank{r}, depth + place / num_active};
    }
  }
}

}  // namespace megamoe::flow
