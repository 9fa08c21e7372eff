#pragma once

// When each worker was at each part of a kernel, by the global timer. Costs nothing unless somebody asked for it.

#include "cuda/simt/clock.hpp"
#include "cuda/sm90/worker.hpp"

namespace megamoe::sm90 {

/// Runs `body()`, all threads of the block, and notes when it began and when its last thread had ended.
template <class Body>
MM_DEVICE void timed(const Worker& worker, Part part, Body&& body) {
  Period* periods = worker.arguments.periods;
  const uint64_t begin_ns = periods == nullptr ? 0U : simt::global_timer_ns();
  body();
  if (periods == nullptr) return;
  simt::sync_threads();
  if (simt::thread_idx() != 0) return;
  Period* mine = periods + worker.worker_idx * kNumParts + static_cast<uint32_t>(part);
  simt::store(&mine->begin_ns, begin_ns);
  simt::store(&mine->end_ns, simt::global_timer_ns());
}

}  // namespace megamoe::sm90
