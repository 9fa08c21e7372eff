#pragma once

// FNV-1a, 64 bits: for names of cases and for outputs of layers, where a few kilobytes must become one number.

#include <cstdint>
#include <string_view>

namespace megamoe::check {

class Fnv1a {
 public:
  constexpr void add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3U; }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

constexpr uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  for (const char letter : text) hash.add(static_cast<uint8_t>(letter));
  return hash.value();
}

}  // namespace megamoe::check
