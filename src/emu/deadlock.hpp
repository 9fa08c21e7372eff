#pragma once

namespace megamoe::emu {

class World;

/// Notes a deadlock finding that says what every waiting lane waits for, lanes of one warp with one reason together.
void note_deadlock(World& world);

}  // namespace megamoe::emu
