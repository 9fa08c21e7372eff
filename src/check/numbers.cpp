#include "check/numbers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "host/errors.hpp"

namespace megamoe {
namespace {

template <class Number>
bool parse_all(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  return code == std::errc{} && stop == end;
}

}  // namespace

Result<uint32_t> parse_whole(std::string_view what, std::string_view text, Range range) {
  uint64_t value = 0;
  if (parse_all(text, value) && value >= range.min && value <= range.max) return static_cast<uint32_t>(value);
  return invalid_argument(fmt::format("{} must be a whole number from {} to {}", what, range.min, range.max),
                          fmt::format("'{}'", text), "give decimal digits only, without sign, space or unit");
}

Result<std::vector<uint32_t>> parse_whole_list(std::string_view what, std::string_view text, Range range) {
  std::vector<uint32_t> values;
  for (const std::string_view piece : split_commas(text)) {
    const Result<uint32_t> value = parse_whole(what, piece, range);
    if (!value) {
      return invalid_argument(
          fmt::format("{} must be whole numbers from {} to {} with commas between", what, range.min, range.max),
          fmt::format("'{}' in '{}'", piece, text), "write a list like 1,16,256, without spaces");
    }
    values.push_back(*value);
  }
  return values;
}

Result<double> parse_real(std::string_view what, std::string_view text, double min) {
  double value = 0;
  if (parse_all(text, value) && std::isfinite(value) && value >= min) return value;
  return invalid_argument(fmt::format("{} must be a number of at least {}", what, min), fmt::format("'{}'", text),
                          "give a decimal number such as 0.5");
}

std::vector<std::string_view> split_commas(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    pieces.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  pieces.push_back(text);
  return pieces;
}

}  // namespace megamoe
