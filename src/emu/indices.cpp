#include "emu/indices.hpp"

#include <fmt/format.h>

#include "emu/places.hpp"
#include "emu/step.hpp"

namespace megamoe::emu {

Indices indices() {
  const Lane& lane = self();
  const Block& block = *lane.block;
  const Launch& launch = block.grid->launch;
  return {lane.thread_idx,
          block.num_lanes,
          block.block_idx,
          launch.num_blocks,
          block.block_idx % launch.num_cluster_blocks,
          launch.num_cluster_blocks,
          block.sm};
}

void* dynamic_shared() { return self().block->shared; }

uint32_t dynamic_shared_bytes() { return self().block->shared_bytes; }

uint32_t shared_address(const void* pointer, const Where& where) {
  if (!world().arena->is_slot(pointer)) {
    world().fail(
        FindingKind::out_of_bounds, where,
        fmt::format("a shared address must be made from a pointer to shared memory (got {})", place_of(pointer)));
  }
  return static_cast<uint32_t>(world().arena->offset(pointer) % kSlotBytes);
}

void* shared_pointer(uint32_t address) { return self().block->shared - kSystemSharedBytes + address; }

void* map_to_block(const void* pointer, uint32_t cluster_block_idx, const Where& where) {
  step();
  const Cluster& cluster = *self().block->cluster;
  const Block* owner = world().owner_of(pointer);
  if (owner == nullptr || owner->cluster != &cluster || cluster_block_idx >= cluster.blocks.size()) {
    world().fail(FindingKind::out_of_bounds, where,
                 fmt::format("mapa must take shared memory of the cluster and one of its {} blocks (got {}, block {})",
                             cluster.blocks.size(), place_of(pointer), cluster_block_idx));
  }
  return cluster.blocks[cluster_block_idx]->shared + (static_cast<const std::byte*>(pointer) - owner->shared);
}

uint64_t clock_cycles() {
  step();
  return world().now_ns() * 2;
}

uint64_t global_timer_ns() {
  step();
  return world().now_ns();
}

}  // namespace megamoe::emu
