#pragma once

// Ordinary loads and stores of global and shared memory: one instruction of 1, 2, 4, 8 or 16 bytes each. Kernels write
// them out, rather than dereference, so that the emulator sees every access. Local variables are plain C++.

#include <cstdint>

#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/memory.hpp"
#endif

namespace megamoe::simt {

/// Four words that travel as one 16-byte access.
struct alignas(16) Vec4 {
  uint32_t x, y, z, w;
};

template <class T>
MM_DEVICE T load(const T* source MM_WHERE) {
#if defined(__CUDACC__)
  return *source;
#else
  return emu::load(source, where);
#endif
}

template <class T>
MM_DEVICE void store(T* destination, T value MM_WHERE) {
#if defined(__CUDACC__)
  *destination = value;
#else
  emu::store(destination, value, where);
#endif
}

/// Through the read-only path and out of L1 early: for data that nobody writes during the kernel and that is read once.
template <class T>
MM_DEVICE T load_streaming(const T* source MM_WHERE) {
#if defined(__CUDACC__)
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  if constexpr (sizeof(T) == 16) {
    uint4 value;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
        : "l"(source));
    return __builtin_bit_cast(T, value);
  } else if constexpr (sizeof(T) == 8) {
    uint64_t value;
    asm("ld.global.nc.L1::no_allocate.u64 %0, [%1];" : "=l"(value) : "l"(source));
    return __builtin_bit_cast(T, value);
  } else {
    uint32_t value;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(source));
    return __builtin_bit_cast(T, value);
  }
#else
  return emu::load(source, where);
#endif
}

}  // namespace megamoe::simt
