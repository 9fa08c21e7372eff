#pragma once

// JSON from files that nobody vouches for: duplicate keys, deep nesting and floods of values are errors.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

inline constexpr uint32_t kMaxJsonDepth = 32;
inline constexpr uint64_t kMaxJsonValues = uint64_t{1} << 23;
/// Longest JSON text that is believed: safetensors headers, index and config files.
inline constexpr uint64_t kMaxJsonBytes = uint64_t{100} << 20;

/// Parses `text`, whose top level must be an object. `origin` stands in front of every message.
/// Errors: invalid_file (syntax, not UTF-8, duplicate key, nesting, number of values, length, top level).
Result<nlohmann::json> parse_strict_json(std::string_view text, std::string_view origin);

/// A JSON value, as a message may show it: printable().
std::string shown(const nlohmann::json& value);

}  // namespace megamoe
