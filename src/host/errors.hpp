#pragma once

// How MegaMoE words an error: the rule, the value that broke it, and what to do about it.

#include <fmt/format.h>

#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

/// "hidden must be a multiple of 16 (got 7100); pad the weights".
template <class Value>
Status error(StatusCode code, std::string_view rule, const Value& value, std::string_view remedy) {
  return {code, fmt::format("{} (got {}); {}", rule, value, remedy)};
}

template <class Value>
Status invalid_argument(std::string_view rule, const Value& value, std::string_view remedy) {
  return error(StatusCode::invalid_argument, rule, value, remedy);
}

template <class Value>
Status invalid_file(std::string_view rule, const Value& value, std::string_view remedy) {
  return error(StatusCode::invalid_file, rule, value, remedy);
}

}  // namespace megamoe

/// Returns early from a function that returns Status or Result<T>.
#define MM_RETURN_IF_ERROR(expression)                                                 \
  do {                                                                                 \
    if (::megamoe::Status mm_status = (expression); !mm_status.ok()) return mm_status; \
  } while (false)
