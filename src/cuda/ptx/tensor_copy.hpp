#pragma once

// Tensor copies: a box of a tensor that a TensorMap describes, against 128-byte aligned shared memory. They complete as
// bulk copies do (bulk_copy.hpp). Elements of the box that lie outside the tensor read as zero and are never written;
// they count as bytes of the copy all the same.

#include <cstdint>

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/tensor_map.hpp"
#include "cuda/simt/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/ptx>
#else
#include "emu/tensor_copy.hpp"
#endif

namespace megamoe::ptx {

/// global -> shared memory; `mbarrier` in the same block as `destination`.
template <uint32_t kNumDims>
MM_DEVICE void tensor_load(void* destination, const TensorMap* map, const int32_t (&coordinates)[kNumDims],
                           uint64_t* mbarrier MM_WHERE) {
  static_assert(kNumDims >= 1 && kNumDims <= kMaxTensorDims);
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, destination, map,
                                    coordinates, mbarrier);
#else
  emu::tensor_load(destination, map, coordinates, kNumDims, mbarrier, 0, where);
#endif
}

/// The same with a hint for L2.
template <uint32_t kNumDims>
MM_DEVICE void tensor_load(void* destination, const TensorMap* map, const int32_t (&coordinates)[kNumDims],
                           uint64_t* mbarrier, L2Hint hint MM_WHERE) {
  static_assert(kNumDims >= 2 && kNumDims <= 4);
#if defined(__CUDACC__)
  const uint32_t to = detail::shared_operand(destination);
  const uint32_t bar = detail::shared_operand(mbarrier);
  const auto policy = static_cast<uint64_t>(hint);
  const int32_t(&at)[kNumDims] = coordinates;
  if constexpr (kNumDims == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(bar), "l"(policy)
        : "memory");
  } else if constexpr (kNumDims == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(bar), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(bar), "l"(policy)
        : "memory");
  }
#else
  (void)hint;
  emu::tensor_load(destination, map, coordinates, kNumDims, mbarrier, 0, where);
#endif
}

/// global -> the same place in every block of the cluster that `block_mask` names.
template <uint32_t kNumDims>
MM_DEVICE void tensor_load_multicast(void* destination, const TensorMap* map, const int32_t (&coordinates)[kNumDims],
                                     uint64_t* mbarrier, uint16_t block_mask MM_WHERE) {
  static_assert(kNumDims >= 1 && kNumDims <= kMaxTensorDims);
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, destination, map,
                                    coordinates, mbarrier, block_mask);
#else
  emu::tensor_load(destination, map, coordinates, kNumDims, mbarrier, block_mask, where);
#endif
}

/// Shared memory -> global memory; part of the thread's next bulk group.
template <uint32_t kNumDims>
MM_DEVICE void tensor_store(const TensorMap* map, const int32_t (&coordinates)[kNumDims], const void* source MM_WHERE) {
  static_assert(kNumDims >= 1 && kNumDims <= kMaxTensorDims);
#if defined(__CUDACC__)
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared, map, coordinates, source);
#else
  emu::tensor_store(map, coordinates, kNumDims, source, where);
#endif
}

}  // namespace megamoe::ptx
