#include "emu/sleep.hpp"

#include "emu/polls.hpp"
#include "emu/step.hpp"

namespace megamoe::emu {

void nanosleep(uint32_t ns, const Where& where) {
  step();
  World& machine = world();
  machine.scheduler.park({WaitKind::sleep, where, nullptr, machine.now_ns() + ns});
  // Sleeping is progress, unless it is part of a loop that sees nothing new.
  if (!is_spinning(self().polls)) ++machine.version;
}

}  // namespace megamoe::emu
