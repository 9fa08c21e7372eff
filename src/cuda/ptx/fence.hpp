#pragma once

// Fences: between accesses of one thread, and between the two proxies.

#include "cuda/ptx/scope.hpp"
#include "cuda/simt/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/ptx>
#else
#include "emu/async_copy.hpp"
#include "emu/memory.hpp"
#endif

namespace megamoe::ptx {

/// fence.acq_rel: makes a relaxed write after it a release of what came before it, and a relaxed read before it an
/// acquire for what comes after it.
template <Scope kScope>
MM_DEVICE void fence_acq_rel(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  if constexpr (kScope == Scope::cta) {
    ::cuda::ptx::fence(::cuda::ptx::sem_acq_rel, ::cuda::ptx::scope_cta);
  } else if constexpr (kScope == Scope::cluster) {
    ::cuda::ptx::fence(::cuda::ptx::sem_acq_rel, ::cuda::ptx::scope_cluster);
  } else if constexpr (kScope == Scope::gpu) {
    ::cuda::ptx::fence(::cuda::ptx::sem_acq_rel, ::cuda::ptx::scope_gpu);
  } else {
    ::cuda::ptx::fence(::cuda::ptx::sem_acq_rel, ::cuda::ptx::scope_sys);
  }
#else
  emu::fence(kScope, where);
#endif
}

/// fence.proxy.async: ordinary accesses before it come before copies and wgmma after it. The thread that wrote calls it
/// before the barrier that hands the memory over (or the thread that issues the copy, after that barrier).
MM_DEVICE void fence_proxy_async(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::fence_proxy_async();
#else
  emu::fence_proxy_async(ProxySpace::all, where);
#endif
}

/// The same for shared memory of this block only, or for global memory only.
MM_DEVICE void fence_proxy_async_shared(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
#else
  emu::fence_proxy_async(ProxySpace::shared, where);
#endif
}
MM_DEVICE void fence_proxy_async_global(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_global);
#else
  emu::fence_proxy_async(ProxySpace::global, where);
#endif
}

/// fence.mbarrier_init: mbarriers that this thread has initialised can be used by the cluster and by copies, after the
/// barrier that follows.
MM_DEVICE void fence_mbarrier_init(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
#else
  emu::fence_mbarrier_init(where);
#endif
}

}  // namespace megamoe::ptx
