#pragma once

#include <string>

namespace megamoe::emu {

/// What an address is, for people: "shared+0x80 of rank 0 block 1", "global+0x10 of rank 1 (allocation 0x7f.. of 256
/// bytes)", "0x1234 outside every allocation".
std::string place_of(const void* address);

}  // namespace megamoe::emu
