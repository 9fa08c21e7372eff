#pragma once

// Warp collectives. `mask` names the lanes that take part: every one of them calls the same function with the same
// mask, and no other lane does. Only syncwarp orders memory.

#include <cstdint>
#include <type_traits>

#include "cuda/simt/index.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include <cstring>

#include "emu/warp.hpp"
#endif

namespace megamoe::simt {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFFU;

#if !defined(__CUDACC__)
namespace detail {

/// A shuffle moves the bits of any type of at most 8 bytes.
template <class T>
T shuffle(emu::WarpOperation operation, uint32_t mask, T value, uint32_t amount, uint32_t width,
          const emu::Where& where) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = emu::warp_collective(operation, mask, bits, amount | width << 16U, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace detail
#endif

/// Waits for the lanes of `mask` and orders their memory accesses before and after.
MM_DEVICE void syncwarp(uint32_t mask = kAllLanes MM_WHERE) {
#if defined(__CUDACC__)
  __syncwarp(mask);
#else
  emu::warp_collective(emu::WarpOperation::sync, mask, 0, 0, where);
#endif
}

/// True in one lane of `mask`, the same one for the same mask all through a kernel; not necessarily the lowest.
MM_DEVICE bool elect_one(uint32_t mask = kAllLanes MM_WHERE) {
#if defined(__CUDACC__)
  uint32_t is_elected;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, %1;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(is_elected)
      : "r"(mask));
  return is_elected != 0;
#else
  return emu::warp_collective(emu::WarpOperation::elect, mask, 0, 0, where) == lane_idx();
#endif
}

/// The value of lane `source` of this lane's segment of `width` lanes, a power of two.
template <class T>
MM_DEVICE T shfl(uint32_t mask, T value, uint32_t source, uint32_t width = kWarpLanes MM_WHERE) {
#if defined(__CUDACC__)
  return __shfl_sync(mask, value, static_cast<int>(source), static_cast<int>(width));
#else
  return detail::shuffle(emu::WarpOperation::shuffle_index, mask, value, source, width, where);
#endif
}

/// The value of the lane `delta` below (shfl_up) or above (shfl_down); the own one where the segment ends.
template <class T>
MM_DEVICE T shfl_up(uint32_t mask, T value, uint32_t delta, uint32_t width = kWarpLanes MM_WHERE) {
#if defined(__CUDACC__)
  return __shfl_up_sync(mask, value, delta, static_cast<int>(width));
#else
  return detail::shuffle(emu::WarpOperation::shuffle_up, mask, value, delta, width, where);
#endif
}
template <class T>
MM_DEVICE T shfl_down(uint32_t mask, T value, uint32_t delta, uint32_t width = kWarpLanes MM_WHERE) {
#if defined(__CUDACC__)
  return __shfl_down_sync(mask, value, delta, static_cast<int>(width));
#else
  return detail::shuffle(emu::WarpOperation::shuffle_down, mask, value, delta, width, where);
#endif
}

/// The value of the lane whose index differs by `lane_mask`.
template <class T>
MM_DEVICE T shfl_xor(uint32_t mask, T value, uint32_t lane_mask, uint32_t width = kWarpLanes MM_WHERE) {
#if defined(__CUDACC__)
  return __shfl_xor_sync(mask, value, static_cast<int>(lane_mask), static_cast<int>(width));
#else
  return detail::shuffle(emu::WarpOperation::shuffle_xor, mask, value, lane_mask, width, where);
#endif
}

/// Bit i is set when lane i of `mask` has a true predicate.
MM_DEVICE uint32_t ballot(uint32_t mask, bool predicate MM_WHERE) {
#if defined(__CUDACC__)
  return __ballot_sync(mask, predicate);
#else
  return static_cast<uint32_t>(emu::warp_collective(emu::WarpOperation::ballot, mask, predicate, 0, where));
#endif
}

MM_DEVICE bool any(uint32_t mask, bool predicate MM_WHERE) {
#if defined(__CUDACC__)
  return __any_sync(mask, predicate) != 0;
#else
  return emu::warp_collective(emu::WarpOperation::any, mask, predicate, 0, where) != 0;
#endif
}

MM_DEVICE bool all(uint32_t mask, bool predicate MM_WHERE) {
#if defined(__CUDACC__)
  return __all_sync(mask, predicate) != 0;
#else
  return emu::warp_collective(emu::WarpOperation::all, mask, predicate, 0, where) != 0;
#endif
}

/// The lanes of `mask` that have the same value as this lane.
MM_DEVICE uint32_t match_any(uint32_t mask, uint32_t value MM_WHERE) {
#if defined(__CUDACC__)
  return __match_any_sync(mask, value);
#else
  return static_cast<uint32_t>(emu::warp_collective(emu::WarpOperation::match_any, mask, value, 0, where));
#endif
}

#define MM_REDUCTION(name, type, intrinsic, operation) \
  MM_DEVICE type name(uint32_t mask, type value MM_WHERE) { MM_REDUCTION_BODY(type, intrinsic, operation) }
#if defined(__CUDACC__)
#define MM_REDUCTION_BODY(type, intrinsic, operation) return intrinsic(mask, value);
#else
#define MM_REDUCTION_BODY(type, intrinsic, operation) \
  const uint64_t bits = static_cast<uint32_t>(value); \
  return static_cast<type>(emu::warp_collective(emu::WarpOperation::operation, mask, bits, 0, where));
#endif

// redux.sync: one value over all lanes of `mask`.
MM_REDUCTION(reduce_add, uint32_t, __reduce_add_sync, reduce_add)
MM_REDUCTION(reduce_min, uint32_t, __reduce_min_sync, reduce_min)
MM_REDUCTION(reduce_max, uint32_t, __reduce_max_sync, reduce_max)
MM_REDUCTION(reduce_add, int32_t, __reduce_add_sync, reduce_add_signed)
MM_REDUCTION(reduce_min, int32_t, __reduce_min_sync, reduce_min_signed)
MM_REDUCTION(reduce_max, int32_t, __reduce_max_sync, reduce_max_signed)
MM_REDUCTION(reduce_and, uint32_t, __reduce_and_sync, reduce_and)
MM_REDUCTION(reduce_or, uint32_t, __reduce_or_sync, reduce_or)
MM_REDUCTION(reduce_xor, uint32_t, __reduce_xor_sync, reduce_xor)
#undef MM_REDUCTION
#undef MM_REDUCTION_BODY

/// warp_idx() as a value that the compiler knows to be the same in all lanes, so that branches on it stay uniform.
MM_DEVICE uint32_t warp_idx_uniform() { return shfl(kAllLanes, warp_idx(), 0); }

}  // namespace megamoe::simt
