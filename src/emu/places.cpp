#include "emu/places.hpp"

#include <fmt/format.h>

#include "emu/world.hpp"

namespace megamoe::emu {

std::string place_of(const void* address) {
  const World& machine = world();
  if (!machine.arena->contains(address)) return fmt::format("{}, outside every allocation", fmt::ptr(address));
  if (machine.arena->is_slot(address)) {
    const Block* block = machine.owner_of(address);
    if (block == nullptr) return fmt::format("{}, shared memory of no block that runs", fmt::ptr(address));
    const auto offset = static_cast<const std::byte*>(address) - block->shared;
    return fmt::format("shared{:+#x} of rank {} block {} ({} bytes)", offset, block->rank, block->block_idx,
                       block->shared_bytes);
  }
  const auto [begin, allocation] = machine.arena->allocation_below(address);
  if (begin == nullptr) return fmt::format("{}, below every allocation", fmt::ptr(address));
  return fmt::format("global{:+#x} of rank {} (allocation of {} bytes)", static_cast<const std::byte*>(address) - begin,
                     allocation.rank, allocation.num_bytes);
}

}  // namespace megamoe::emu
