#pragma once

// `megamoe check --soak`: random layers, whose bits two layers must agree on.

#include "check/soak.hpp"
#include "commands.hpp"
#include "console.hpp"

namespace megamoe::cli {

struct SoakOptions {
  uint32_t num_calls = 0;  ///< 0: none is asked for
  uint32_t seed = 1;

  bool is_asked_for() const { return num_calls != 0; }
};

/// Runs it and prints what came out, last "N passed, N failed", which count calls.
Exit run_soak(const SoakOptions& options, Backend backend, OutputForm form);

}  // namespace megamoe::cli
