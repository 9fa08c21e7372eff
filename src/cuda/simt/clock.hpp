#pragma once

// Time. In the emulator one lane-step takes a nanosecond, and the clock jumps when everybody waits.

#include <cstdint>

#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/indices.hpp"
#include "emu/sleep.hpp"
#endif

namespace megamoe::simt {

/// Cycles of this SM.
MM_DEVICE uint64_t clock_cycles() {
#if defined(__CUDACC__)
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
  return cycles;
#else
  return emu::clock_cycles();
#endif
}

/// Nanoseconds, about the same on all SMs; its steps may be as coarse as a microsecond.
MM_DEVICE uint64_t global_timer_ns() {
#if defined(__CUDACC__)
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
#else
  return emu::global_timer_ns();
#endif
}

/// Sleeps for about `ns` nanoseconds, at most a millisecond.
MM_DEVICE void nanosleep(uint32_t ns MM_WHERE) {
#if defined(__CUDACC__)
  __nanosleep(ns);
#else
  emu::nanosleep(ns, where);
#endif
}

}  // namespace megamoe::simt
