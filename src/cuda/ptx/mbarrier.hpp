#pragma once

// mbarrier: arrivals and transaction bytes in shared memory. One 8-byte word holds one object.
//
//   if (thread_idx() == 0) { mbarrier_init(full, 1); fence_mbarrier_init(); }
//   sync_threads();
//   producer: mbarrier_arrive_expect_tx(full, bytes); bulk_load(tile, source, bytes, full);
//   consumer: while (!mbarrier_try_wait(full, parity)) {}    // parity of the phase: 0, 1, 0, ...
//
// A phase is complete when all arrivals and all expected bytes are in. Waiting with parity 1 on a fresh object passes.

#include <cstdint>

#include "cuda/ptx/scope.hpp"
#include "cuda/simt/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/ptx>
#else
#include "emu/mbarrier.hpp"
#endif

namespace megamoe::ptx {

#if defined(__CUDACC__)
namespace detail {
__device__ __forceinline__ uint32_t mbarrier_address(const uint64_t* mbarrier) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(mbarrier));
}
}  // namespace detail
#endif

/// `num_arrivals`: 1 to 2^20 - 1, expected in every phase. By one thread; others may use the object after a barrier,
/// copies and other blocks after fence_mbarrier_init and a barrier.
MM_DEVICE void mbarrier_init(uint64_t* mbarrier, uint32_t num_arrivals MM_WHERE) {
#if defined(__CUDACC__)
  ::cuda::ptx::mbarrier_init(mbarrier, num_arrivals);
#else
  emu::mbarrier_init(mbarrier, num_arrivals, where);
#endif
}

/// The memory may be used for something else afterwards.
MM_DEVICE void mbarrier_inval(uint64_t* mbarrier MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(detail::mbarrier_address(mbarrier)) : "memory");
#else
  emu::mbarrier_inval(mbarrier, where);
#endif
}

/// `count` arrivals at an mbarrier of this block; release, cta scope.
MM_DEVICE void mbarrier_arrive(uint64_t* mbarrier, uint32_t count = 1 MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(detail::mbarrier_address(mbarrier)),
               "r"(count)
               : "memory");
#else
  emu::mbarrier_arrive(mbarrier, count, 0, Order::release, emu::MBarrierSpace::own_block, where);
#endif
}

/// At an mbarrier of any block of the cluster, whose address map_to_block gave; release, cluster scope.
MM_DEVICE void mbarrier_arrive_cluster(uint64_t* mbarrier, uint32_t count = 1 MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(detail::mbarrier_address(mbarrier)),
      "r"(count)
      : "memory");
#else
  emu::mbarrier_arrive(mbarrier, count, 0, Order::release, emu::MBarrierSpace::cluster, where);
#endif
}

/// One arrival, and `num_bytes` more that copies must bring before the phase is complete.
MM_DEVICE void mbarrier_arrive_expect_tx(uint64_t* mbarrier, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile(
      "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(detail::mbarrier_address(mbarrier)),
      "r"(num_bytes)
      : "memory");
#else
  emu::mbarrier_arrive(mbarrier, 1, num_bytes, Order::release, emu::MBarrierSpace::own_block, where);
#endif
}
MM_DEVICE void mbarrier_arrive_expect_tx_cluster(uint64_t* mbarrier, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                   detail::mbarrier_address(mbarrier)),
               "r"(num_bytes)
               : "memory");
#else
  emu::mbarrier_arrive(mbarrier, 1, num_bytes, Order::release, emu::MBarrierSpace::cluster, where);
#endif
}

/// Bytes without an arrival; relaxed.
MM_DEVICE void mbarrier_expect_tx(uint64_t* mbarrier, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(detail::mbarrier_address(mbarrier)),
               "r"(num_bytes)
               : "memory");
#else
  emu::mbarrier_expect_tx(mbarrier, num_bytes, emu::MBarrierSpace::own_block, where);
#endif
}

/// Whether the phase of `parity` is complete; acquire. Sleeps for a while when it is not, and may then still say no:
/// call it in a loop. The scope is what arrivals are ordered at: cluster where another block arrives.
template <Scope kScope = Scope::cta>
MM_DEVICE bool mbarrier_try_wait(uint64_t* mbarrier, uint32_t parity MM_WHERE) {
  static_assert(kScope == Scope::cta || kScope == Scope::cluster);
#if defined(__CUDACC__)
  if constexpr (kScope == Scope::cta) {
    return ::cuda::ptx::mbarrier_try_wait_parity(::cuda::ptx::sem_acquire, ::cuda::ptx::scope_cta, mbarrier, parity);
  } else {
    return ::cuda::ptx::mbarrier_try_wait_parity(::cuda::ptx::sem_acquire, ::cuda::ptx::scope_cluster, mbarrier,
                                                 parity);
  }
#else
  return emu::mbarrier_try_wait(mbarrier, parity, where);
#endif
}

/// The same without sleeping.
MM_DEVICE bool mbarrier_test_wait(uint64_t* mbarrier, uint32_t parity MM_WHERE) {
#if defined(__CUDACC__)
  return ::cuda::ptx::mbarrier_test_wait_parity(::cuda::ptx::sem_acquire, ::cuda::ptx::scope_cta, mbarrier, parity);
#else
  return emu::mbarrier_test_wait(mbarrier, parity, where);
#endif
}

/// Until the phase of `parity` is complete, without bound. For barriers between threads of one block, where nothing
/// from outside can fail to come.
template <Scope kScope = Scope::cta>
MM_DEVICE void mbarrier_wait(uint64_t* mbarrier, uint32_t parity MM_WHERE) {
#if defined(__CUDACC__)
  while (!mbarrier_try_wait<kScope>(mbarrier, parity)) {
  }
#else
  while (!mbarrier_try_wait<kScope>(mbarrier, parity, where)) {
  }
#endif
}

}  // namespace megamoe::ptx
