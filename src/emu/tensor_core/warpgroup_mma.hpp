#pragma once

// The four wgmma instructions on the emulated machine: what the host bodies of cuda/ptx/wgmma.hpp call.
//
// wgmma_mma_async computes at once, but hands the result over at the wait: until then the accumulator's registers hold
// kUnfinishedD, a NaN, and the operands' bytes are busy. So these are findings:
//   mma_order            an mma without a fence since registers were last handed back; registers written in flight; a
//                        chain that changes n; a block or run that ends without the wait; registers that wgmma_pin, a
//                        store or a shuffle meets before they are handed back
//   copy_in_flight       operands overwritten before the wait, or still being written by a copy
//   missing_proxy_fence  operands written by ordinary stores without fence.proxy.async
//   out_of_bounds        operands outside the block's shared memory
//   divergent_collective lanes that disagree on the instruction or its operands
//   read_write_race      operands that no barrier orders before the mma (with Races::find)
// Registers are plain C++ to the emulator: it sees an early read only where the value comes by one of these. Bytes that
// nobody wrote read as NaN codes: padding may be multiplied, but spoils its own rows and columns only.

#include <cstdint>

#include "cuda/ptx/wgmma_descriptor.hpp"
#include "cuda/ptx/wgmma_shape.hpp"
#include "emu/findings.hpp"
#include "emu/memory.hpp"

namespace megamoe::emu {

void wgmma_fence(const Where& where);
/// `d`: this lane's n / 2 registers. `a`: this lane's four words of A, or nullptr: A stands at `a_place`.
void wgmma_mma_async(const ptx::WgmmaSpec& spec, float* d, const uint32_t* a, ptx::WgmmaDescriptor a_place,
                     ptx::WgmmaDescriptor b_place, ptx::ScaleD scale_d, const Where& where);
void wgmma_commit_group(const Where& where);
void wgmma_wait_group(uint32_t num_pending, const Where& where);
/// Ordinary code goes on with these registers of this lane. No instruction and no lane-step.
void wgmma_pin(const float* d, uint32_t num_registers, const Where& where);

/// Called when a block has exited: what it never waited for is a finding.
void check_mma_exit(struct Block& block);

}  // namespace megamoe::emu
