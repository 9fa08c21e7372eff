#pragma once

// Numbers and lists of numbers as people type them. Untrusted text in, rule, value and remedy out.

#include <cstdint>
#include <string_view>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe {

/// Inclusive bounds of a number.
struct Range {
  uint64_t min = 0;
  uint64_t max = UINT32_MAX;
};

/// A whole number in decimal digits, nothing else: no sign, no space, no unit. `what` names it in the error.
Result<uint32_t> parse_whole(std::string_view what, std::string_view text, Range range);

/// "1,16,256": at least one number, each in `range`.
Result<std::vector<uint32_t>> parse_whole_list(std::string_view what, std::string_view text, Range range);

/// A finite number such as "0.5", at least `min`.
Result<double> parse_real(std::string_view what, std::string_view text, double min);

/// The pieces between commas, empty ones included; one empty piece for an empty text.
std::vector<std::string_view> split_commas(std::string_view text);

}  // namespace megamoe
