#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

/// Expects `status` to have `code` and a message that holds each of `parts` (rule, value, remedy).
inline void expect_error(const Status& status, StatusCode code, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string_view part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << "no \"" << part << "\" in: " << status.to_string();
  }
}

}  // namespace megamoe
