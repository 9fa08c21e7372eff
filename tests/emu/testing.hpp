#pragma once

// What the tests of the emulated machine share.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "emu/machine.hpp"

namespace megamoe::emu::testing {

inline Machine make_machine(Options options) {
  if (options.memory_bytes == Options{}.memory_bytes) options.memory_bytes = 1 << 20;
  Result<Machine> machine = Machine::create(options);
  EXPECT_TRUE(machine.ok()) << machine.status().to_string();
  return std::move(*machine);
}

/// Global memory of `rank` with these words.
inline uint32_t* words_of(Machine& machine, uint32_t rank, const std::vector<uint32_t>& values) {
  auto* words = machine.allocate<uint32_t>(rank, values.size());
  machine.write(words, values.data(), values.size() * sizeof(uint32_t));
  return words;
}

/// Queues a launch that must be accepted.
inline void launch(Machine& machine, const Launch& launch, std::function<void()> kernel) {
  const Status status = machine.launch(launch, std::move(kernel));
  EXPECT_TRUE(status.ok()) << status.to_string();
}

/// Runs one launch, which must be clean.
inline void run_clean(Machine& machine, const Launch& shape, std::function<void()> kernel) {
  launch(machine, shape, std::move(kernel));
  const Report report = machine.run();
  EXPECT_TRUE(report.clean()) << report.to_string();
}

}  // namespace megamoe::emu::testing
