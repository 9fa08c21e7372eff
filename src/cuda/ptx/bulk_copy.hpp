#pragma once

// Bulk copies: one thread moves any multiple of 16 bytes between 16-byte aligned places of global and shared memory,
// behind its back (the async proxy).
//
// Into shared memory a copy completes on an mbarrier that expects its bytes. Out of shared memory it belongs to the
// issuing thread's next bulk group: bulk_commit_group closes the group, bulk_wait_group_read waits until shared memory
// may be reused, bulk_wait_group until the writes are done. Ordinary stores to the source need fence_proxy_async first.

#include <cstdint>

#include "cuda/simt/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/ptx>
#else
#include "emu/async_copy.hpp"
#endif

namespace megamoe::ptx {

/// How L2 should treat the bytes of a copy: the encodings that createpolicy.fractional makes for the whole access.
enum class L2Hint : uint64_t {
  evict_normal = 0x1000000000000000ULL,
  evict_first = 0x12F0000000000000ULL,
  evict_last = 0x14F0000000000000ULL,
};

#if defined(__CUDACC__)
namespace detail {
__device__ __forceinline__ uint32_t shared_operand(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
}  // namespace detail
#endif

/// global -> shared memory of this block (or, with an address of map_to_block, of one in the cluster, `mbarrier` with
/// it).
MM_DEVICE void bulk_load(void* destination, const void* source, uint32_t num_bytes, uint64_t* mbarrier MM_WHERE) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, destination, source, num_bytes,
                             mbarrier);
#else
  emu::bulk_load(destination, source, num_bytes, mbarrier, 0, where);
#endif
}

MM_DEVICE void bulk_load(void* destination, const void* source, uint32_t num_bytes, uint64_t* mbarrier,
                         L2Hint hint MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(detail::shared_operand(destination)),
      "l"(source), "r"(num_bytes), "r"(detail::shared_operand(mbarrier)), "l"(static_cast<uint64_t>(hint))
      : "memory");
#else
  (void)hint;
  emu::bulk_load(destination, source, num_bytes, mbarrier, 0, where);
#endif
}

/// global -> the same place in every block of the cluster that `block_mask` names; completes on each one's own
/// mbarrier.
MM_DEVICE void bulk_load_multicast(void* destination, const void* source, uint32_t num_bytes, uint64_t* mbarrier,
                                   uint16_t block_mask MM_WHERE) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, destination, source, num_bytes,
                             mbarrier, block_mask);
#else
  emu::bulk_load(destination, source, num_bytes, mbarrier, block_mask, where);
#endif
}
MM_DEVICE void bulk_load_multicast(void* destination, const void* source, uint32_t num_bytes, uint64_t* mbarrier,
                                   uint16_t block_mask, L2Hint hint MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4, %5;" ::"r"(detail::shared_operand(destination)),
      "l"(source), "r"(num_bytes), "r"(detail::shared_operand(mbarrier)), "h"(block_mask),
      "l"(static_cast<uint64_t>(hint))
      : "memory");
#else
  (void)hint;
  emu::bulk_load(destination, source, num_bytes, mbarrier, block_mask, where);
#endif
}

/// Own shared memory -> shared memory of a block in the cluster; completes on an mbarrier there.
MM_DEVICE void bulk_push(void* destination, const void* source, uint32_t num_bytes, uint64_t* mbarrier MM_WHERE) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_shared, destination, source, num_bytes,
                             mbarrier);
#else
  emu::bulk_push(destination, source, num_bytes, mbarrier, where);
#endif
}

/// Shared memory -> global memory, also a peer's.
MM_DEVICE void bulk_store(void* destination, const void* source, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared, destination, source, num_bytes);
#else
  emu::bulk_store(emu::CopyKind::store, destination, source, num_bytes, where);
#endif
}

/// The same, added element by element to what is there; each addition is atomic, of gpu scope, and rounds to nearest
/// even.
MM_DEVICE void bulk_reduce_add_f32(float* destination, const float* source, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(destination),
               "r"(detail::shared_operand(source)), "r"(num_bytes)
               : "memory");
#else
  emu::bulk_store(emu::CopyKind::reduce_add_f32, destination, source, num_bytes, where);
#endif
}
/// Both point to bf16 bits.
MM_DEVICE void bulk_reduce_add_bf16(uint16_t* destination, const uint16_t* source, uint32_t num_bytes MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(destination),
               "r"(detail::shared_operand(source)), "r"(num_bytes)
               : "memory");
#else
  emu::bulk_store(emu::CopyKind::reduce_add_bf16, destination, source, num_bytes, where);
#endif
}

MM_DEVICE void bulk_commit_group(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_commit_group();
#else
  emu::bulk_commit_group(where);
#endif
}

/// Until at most `kNumPending` of this thread's latest groups have writes outstanding.
template <uint32_t kNumPending>
MM_DEVICE void bulk_wait_group(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<kNumPending>{});
#else
  emu::bulk_wait_group(kNumPending, emu::BulkWait::writes, where);
#endif
}

/// Until at most `kNumPending` of them still read shared memory.
template <uint32_t kNumPending>
MM_DEVICE void bulk_wait_group_read(MM_WHERE_ONLY) {
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<kNumPending>{});
#else
  emu::bulk_wait_group(kNumPending, emu::BulkWait::reads, where);
#endif
}

}  // namespace megamoe::ptx
