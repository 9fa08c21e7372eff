#pragma once

#include "emu/world.hpp"

namespace megamoe::emu {

/// One lane-step: every layer function takes one, and any of them may let other lanes run.
inline void step() {
  if (--world().countdown == 0) world().scheduler.countdown_ended();
}

}  // namespace megamoe::emu
