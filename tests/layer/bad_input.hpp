#pragma once

// A refused input must name the rule, the value that broke it, and the remedy.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

struct Wanted {
  std::string_view rule;
  std::string_view value;
  std::string_view remedy;
};

inline void expect_refused(const Status& status, StatusCode code, const Wanted& wanted) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string_view part : {wanted.rule, wanted.value, wanted.remedy}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << "no \"" << part << "\" in: " << status.to_string();
  }
}

}  // namespace megamoe
