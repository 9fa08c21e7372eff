#pragma once

// The packed count-and-arrived word, and what follows from adding to it.
//
// Low half: how many rows. High half: how many contributors have reported. One atomic add reports a share and returns
// where it begins (that is the prefix sum); one load tells both how many there are and whether that is final.

#include "flow/index.hpp"

namespace megamoe::flow {

struct CountWord {
  uint64_t bits = 0;

  /// What a contributor adds.
  MM_HOST_DEVICE static constexpr uint64_t report(uint32_t num_rows) { return (uint64_t{1} << 32) | num_rows; }

  MM_HOST_DEVICE constexpr uint32_t num_rows() const { return static_cast<uint32_t>(bits); }
  MM_HOST_DEVICE constexpr uint32_t num_reported() const { return static_cast<uint32_t>(bits >> 32); }
  MM_HOST_DEVICE constexpr bool is_final(uint32_t num_contributors) const { return num_reported() == num_contributors; }
};

/// What the atomic add of report(num_rows) returned to its contributor.
struct Prefix {
  CountWord before;
  uint32_t num_rows = 0;  ///< the contributor's own

  /// Where the contributor's rows begin.
  MM_HOST_DEVICE constexpr uint32_t base() const { return before.num_rows(); }
  /// True for exactly one contributor: the one whose add made the word final. It passes the total on.
  MM_HOST_DEVICE constexpr bool completes(uint32_t num_contributors) const {
    return before.num_reported() + 1U == num_contributors;
  }
  MM_HOST_DEVICE constexpr uint32_t total() const { return before.num_rows() + num_rows; }
};

}  // namespace megamoe::flow
