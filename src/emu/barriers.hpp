#pragma once

// Barriers of a block and of a cluster, setmaxnreg and griddepcontrol.

#include <cstdint>

#include "cuda/ptx/scope.hpp"
#include "emu/findings.hpp"

namespace megamoe::emu {

struct Lane;

/// bar.sync: waits until `num_threads` threads have arrived at barrier `barrier_idx`.
void barrier_sync(uint32_t barrier_idx, uint32_t num_threads, const Where& where);
/// bar.arrive: counts as arrived and does not wait.
void barrier_arrive(uint32_t barrier_idx, uint32_t num_threads, const Where& where);

/// barrier.cluster.arrive with release or relaxed order, and barrier.cluster.wait with acquire order.
void cluster_arrive(ptx::Order order, const Where& where);
void cluster_wait(const Where& where);
/// A lane that exits counts as arrived from now on.
void leave_cluster_barrier(Lane& lane);

/// setmaxnreg of one warpgroup. `grow`: inc, which waits until the block has that many registers to give.
enum class RegisterChange : uint8_t { shrink, grow };
void set_max_registers(RegisterChange change, uint32_t num_registers, const Where& where);

/// griddepcontrol.wait: until the earlier launches of this rank's stream have ended, their memory visible.
void wait_for_earlier_grid(const Where& where);
/// griddepcontrol.launch_dependents.
void launch_dependents(const Where& where);

}  // namespace megamoe::emu
