#pragma once

// The seeds that a case runs under: 200 interleavings in continuous integration, others by two variables.
//
//   for (const uint64_t seed : seeds()) { ... }        MM_EMU_SEEDS=1 MM_EMU_FIRST_SEED=17 replays seed 17
//
// Every failed expectation in the loop says how to replay it, and the loop ends with the first seed that has one.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace megamoe::emu::testing {

inline constexpr uint64_t kNumSeedsInCi = 200;

inline uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The command that runs the present test under this seed only.
inline std::string replay_command(uint64_t seed) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  return "replay: MM_EMU_FIRST_SEED=" + std::to_string(seed) + " MM_EMU_SEEDS=1 " + program_invocation_name +
         " --gtest_filter=" + test.test_suite_name() + "." + test.name();
}

class Seeds {
 public:
  struct End {};
  class Iterator {
   public:
    Iterator(uint64_t first, uint64_t count) : seed_(first), end_(first + count) {}
    uint64_t operator*() {
      trace_.emplace("seed", 0, replay_command(seed_));
      return seed_;
    }
    Iterator& operator++() {
      trace_.reset();
      ++seed_;
      return *this;
    }
    bool operator!=(End) const { return seed_ != end_ && !::testing::Test::HasFailure(); }

   private:
    uint64_t seed_;
    uint64_t end_;
    std::optional<::testing::ScopedTrace> trace_;
  };

  Iterator begin() const { return {first_, count_}; }
  End end() const { return {}; }

 private:
  uint64_t first_ = from_environment("MM_EMU_FIRST_SEED", 1);
  uint64_t count_ = from_environment("MM_EMU_SEEDS", kNumSeedsInCi);
};

inline Seeds seeds() { return {}; }

}  // namespace megamoe::emu::testing
