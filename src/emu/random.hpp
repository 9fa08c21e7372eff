#pragma once

// The run's only source of chance: a seed gives the same run on every machine and compiler.

#include <cstdint>

namespace megamoe::emu {

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed = 1) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }

  /// Uniform in [0, bound). REQUIRES bound > 0.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32U) * bound) >> 32U); }

  /// True once in `period` draws on average. REQUIRES period > 0.
  bool one_in(uint32_t period) { return below(period) == 0; }

 private:
  uint64_t state_;
};

}  // namespace megamoe::emu
