#pragma once

#include <cstdint>

#include "emu/findings.hpp"

namespace megamoe::emu {

/// Lets others run for `ns` of virtual time. A lane that sleeps between looks at unchanged memory is still a poll.
void nanosleep(uint32_t ns, const Where& where);

}  // namespace megamoe::emu
