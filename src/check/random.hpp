#pragma once

// Counter-based random numbers: the value at a position depends on (key, position) alone.

#include <array>
#include <cstdint>

namespace megamoe::check {

/// The finaliser of splitmix64: every input bit moves every output bit.
constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

/// A stream: `at(i)` are independent 64-bit numbers.
class Stream {
 public:
  template <class... Parts>
  explicit constexpr Stream(uint64_t seed, Parts... parts) : key_(mix(seed + kStep)) {
    ((key_ = mix(key_ + (static_cast<uint64_t>(parts) + 1) * kStep)), ...);
  }

  constexpr uint64_t at(uint64_t position) const { return mix(key_ + position * kStep); }
  /// Uniform in [0, 1).
  constexpr double uniform(uint64_t position) const { return static_cast<double>(at(position) >> 11) * 0x1p-53; }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;  // odd, so that positions never repeat
  uint64_t key_ = 0;
};

/// kNormalQuantiles()[i]: where the normal distribution reaches (i + 0.5) / 256; the last entry closes the interval.
const std::array<float, 257>& normal_quantiles();

/// A standard normal number out of 16 random bits (8 choose the interval, 8 the place in it).
inline float normal_from(uint32_t bits16) {
  const std::array<float, 257>& quantiles = normal_quantiles();
  const uint32_t idx = (bits16 >> 8) & 255U;
  const float place = static_cast<float>(bits16 & 255U) * (1.0F / 256.0F);
  return quantiles[idx] + place * (quantiles[idx + 1] - quantiles[idx]);
}

}  // namespace megamoe::check
