#pragma once

// The stages on real GPUs: one rank each, or several virtual ranks to a GPU.

#include <memory>

#include "check/stages/stage_machine.hpp"

namespace megamoe::stages {

/// Errors: unsupported, when no Hopper GPU is visible; no memory.
Result<std::unique_ptr<StageMachine>> make_device_machine(const StageCase& stage_case);

}  // namespace megamoe::stages
