#pragma once

#include <cstdint>

#include "emu/findings.hpp"

namespace megamoe::emu {

/// Where the running lane stands.
struct Indices {
  uint32_t thread;
  uint32_t num_threads;
  uint32_t block;
  uint32_t num_blocks;
  uint32_t cluster_block;
  uint32_t num_cluster_blocks;
  uint32_t sm;
};

/// A special register is no lane-step: reading it is no point where others could be seen to run.
Indices indices();

/// Of the running lane's block.
void* dynamic_shared();
uint32_t dynamic_shared_bytes();
/// The 32-bit address that instructions take instead of a generic pointer, and the way back for the running lane.
uint32_t shared_address(const void* pointer, const Where& where);
void* shared_pointer(uint32_t address);
/// mapa: the same place in another block of the cluster.
void* map_to_block(const void* pointer, uint32_t cluster_block_idx, const Where& where);

uint64_t clock_cycles();
uint64_t global_timer_ns();

}  // namespace megamoe::emu
