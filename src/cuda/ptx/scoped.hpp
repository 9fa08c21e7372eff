#pragma once

// Loads and stores of flags: strong accesses to global memory, with an order and a scope, of 4 or 8 bytes.
//
//   st_release<Scope::sys>(flag, value);   // publish(...)
//   ld_acquire<Scope::sys>(flag);          // consume(...)
//
// A peer GPU's memory needs Scope::sys on both sides; blocks of one rank need Scope::gpu.

#include <cstdint>

#include "cuda/ptx/scope.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include "emu/memory.hpp"
#endif

namespace megamoe::ptx {

#if defined(__CUDACC__)
// One statement for each scope: the text of an instruction is a literal.
#define MM_FOR_SCOPE(scope, STATEMENT, ...)           \
  do {                                                \
    if constexpr ((scope) == Scope::cta) {            \
      STATEMENT("cta", __VA_ARGS__);                  \
    } else if constexpr ((scope) == Scope::cluster) { \
      STATEMENT("cluster", __VA_ARGS__);              \
    } else if constexpr ((scope) == Scope::gpu) {     \
      STATEMENT("gpu", __VA_ARGS__);                  \
    } else {                                          \
      STATEMENT("sys", __VA_ARGS__);                  \
    }                                                 \
  } while (false)
#define MM_LD(scope, order, type, constraint) \
  asm volatile("ld." order "." scope ".global." type " %0, [%1];" : "=" constraint(value) : "l"(source) : "memory")
#define MM_ST(scope, order, type, constraint) \
  asm volatile("st." order "." scope ".global." type " [%0], %1;" ::"l"(destination), constraint(value) : "memory")
#endif

template <Scope kScope>
MM_DEVICE uint32_t ld_relaxed(const uint32_t* source MM_WHERE) {
  uint32_t value;
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_LD, "relaxed", "u32", "r");
#else
  emu::strong_load(&value, source, sizeof value, Order::relaxed, kScope, where);
#endif
  return value;
}

template <Scope kScope>
MM_DEVICE uint64_t ld_relaxed(const uint64_t* source MM_WHERE) {
  uint64_t value;
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_LD, "relaxed", "u64", "l");
#else
  emu::strong_load(&value, source, sizeof value, Order::relaxed, kScope, where);
#endif
  return value;
}

template <Scope kScope>
MM_DEVICE uint32_t ld_acquire(const uint32_t* source MM_WHERE) {
  uint32_t value;
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_LD, "acquire", "u32", "r");
#else
  emu::strong_load(&value, source, sizeof value, Order::acquire, kScope, where);
#endif
  return value;
}

template <Scope kScope>
MM_DEVICE uint64_t ld_acquire(const uint64_t* source MM_WHERE) {
  uint64_t value;
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_LD, "acquire", "u64", "l");
#else
  emu::strong_load(&value, source, sizeof value, Order::acquire, kScope, where);
#endif
  return value;
}

template <Scope kScope>
MM_DEVICE void st_relaxed(uint32_t* destination, uint32_t value MM_WHERE) {
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_ST, "relaxed", "u32", "r");
#else
  emu::strong_store(destination, &value, sizeof value, Order::relaxed, kScope, where);
#endif
}

template <Scope kScope>
MM_DEVICE void st_relaxed(uint64_t* destination, uint64_t value MM_WHERE) {
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_ST, "relaxed", "u64", "l");
#else
  emu::strong_store(destination, &value, sizeof value, Order::relaxed, kScope, where);
#endif
}

template <Scope kScope>
MM_DEVICE void st_release(uint32_t* destination, uint32_t value MM_WHERE) {
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_ST, "release", "u32", "r");
#else
  emu::strong_store(destination, &value, sizeof value, Order::release, kScope, where);
#endif
}

template <Scope kScope>
MM_DEVICE void st_release(uint64_t* destination, uint64_t value MM_WHERE) {
#if defined(__CUDACC__)
  MM_FOR_SCOPE(kScope, MM_ST, "release", "u64", "l");
#else
  emu::strong_store(destination, &value, sizeof value, Order::release, kScope, where);
#endif
}

#if defined(__CUDACC__)
#undef MM_LD
#undef MM_ST
#endif

}  // namespace megamoe::ptx
