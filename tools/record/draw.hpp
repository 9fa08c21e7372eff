#pragma once

#include <cstdint>

#include "check/random.hpp"

namespace megamoe::record {

/// Random numbers one after another.
class Draw {
 public:
  template <class... Parts>
  explicit Draw(uint64_t seed, Parts... parts) : stream_(seed, parts...) {}

  uint64_t bits() { return stream_.at(position_++); }
  /// Uniform in [0, count).
  uint32_t below(uint32_t count) { return static_cast<uint32_t>((bits() >> 32U) * count >> 32U); }
  /// Uniform in [low, high].
  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(below(static_cast<uint32_t>(high - low + 1)));
  }
  /// True `in_256` times out of 256.
  bool chance(uint32_t in_256) { return below(256) < in_256; }

 private:
  check::Stream stream_;
  uint64_t position_ = 0;
};

}  // namespace megamoe::record
