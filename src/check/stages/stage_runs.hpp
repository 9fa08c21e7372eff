#pragma once

// The stage cases as `megamoe check` runs them: on the GPUs of this machine.

#include <vector>

#include "check/case_table.hpp"
#include "check/runner.hpp"

namespace megamoe::stages {

/// One run per stage case, "stages/...": small ones with many shapes, then some of published layers' sizes. Skipped
/// where there is no Hopper GPU or no kernel in the build.
std::vector<NamedRun> stage_runs(Suite suite);

}  // namespace megamoe::stages
