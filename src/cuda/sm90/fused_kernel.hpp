#pragma once

// The whole layer as one kernel: dispatch by all threads of the block, then the producer and the math groups over the
// tiles of both phases, wave by wave, then combine by all threads.
//
// Deadlock freedom. All blocks of all ranks are resident (cooperative launch). A block pulls all its rows before its
// producer takes a tile, and dispatch waits for dispatch only: every row arrives. The producer brings tiles into the
// ring in the order of the walk and waits only for rows and for tiles that come earlier in it; the math groups work on
// what has been brought without waiting for anything else, so a tile in the ring is finished. Hence the earliest tile
// of all blocks that is not finished never waits for long (flow/schedule.hpp). Where a wait runs out of time, the ring
// stops both roles, every rank's abort flag is up, and the barrier that follows fails in all blocks.

#include "cuda/sm90/gemm_kernels.hpp"
#include "cuda/sm90/plain_kernels.hpp"

namespace megamoe::sm90 {

/// What each thread had before setmaxnreg: code that all threads run is compiled for it.
inline constexpr uint32_t kEvenRegisters = 168;

MM_DEVICE void even_registers() {
  // In a block without tiles the producer would take registers that a math group has yet to get.
  simt::sync_threads();
  if (simt::warpgroup_idx() == 0) {
    simt::grow_registers<kEvenRegisters>();
  } else {
    simt::shrink_registers<kEvenRegisters>();
  }
}

/// Whether no rank has given up so far: all threads of the block get the same answer. A barrier that everybody reaches
/// would not tell. REQUIRES a sync_threads before.
MM_DEVICE sync::GoOn is_unbroken(const Worker& worker) {
  sync::GoOn go_on = true;
  if (simt::thread_idx() == 0) {
    const uint32_t* abort_flag = worker.arguments.own().get<flow::Field::abort_flag>();
    go_on = ptx::ld_acquire<ptx::Scope::sys>(abort_flag) == 0U;  // consume(abort_flag)
  }
  return sync::share_verdict(go_on, worker.shared.verdict);
}

/// REQUIRES kConfig.phases == Phases::both, and of the launch what gemm_kernel and dispatch_kernel ask for.
template <GemmConfig kConfig>
MM_DEVICE void fused_kernel(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  static_assert(kConfig.phases == Phases::both);
  const auto shared = GemmWorker<kConfig>::Shared::carve(simt::dynamic_shared(), arguments.dims);
  const Worker worker{*shared.arguments, SharedPlan::carve(shared.end, arguments.dims), worker_idx, num_workers};
  const GemmWorker<kConfig> gemm{worker, shared};
  init_gemm(gemm, arguments);
  if (!dispatch(worker)) return;
  run_roles(gemm);
  even_registers();
  if (is_unbroken(worker)) bring_together(worker);
}

}  // namespace megamoe::sm90
