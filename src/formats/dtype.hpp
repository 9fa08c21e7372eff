#pragma once

// Element types of safetensors files.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megamoe {

enum class Dtype : uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e5m2fnuz,
  f8_e4m3fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64,
  c64,
};

/// As the file spells it: "F8_E4M3", "BF16", ...
std::string_view to_string(Dtype dtype);
/// Bits of one element; fewer than 8 for the packed types.
uint32_t num_bits(Dtype dtype);
std::optional<Dtype> parse_dtype(std::string_view name);
/// Every name, comma separated.
std::string dtype_names();

}  // namespace megamoe
