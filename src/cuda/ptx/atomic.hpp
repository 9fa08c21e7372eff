#pragma once

// Atomics on global memory, with an order and a scope, and relaxed ones on shared memory.
//
//   const uint64_t before = atom_add<Order::acq_rel, Scope::gpu>(counter, 1);
//   red_add<Order::release, Scope::sys>(counter, 1);   // no result: cheaper

#include <cstdint>

#include "cuda/ptx/scope.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/platform.hpp"

#if !defined(__CUDACC__)
#include <algorithm>

#include "emu/memory.hpp"
#endif

namespace megamoe::ptx {

#if defined(__CUDACC__)
#define MM_FOR_ORDER(order, scope, STATEMENT, ...)            \
  do {                                                        \
    if constexpr ((order) == Order::relaxed) {                \
      MM_FOR_SCOPE(scope, STATEMENT, "relaxed", __VA_ARGS__); \
    } else if constexpr ((order) == Order::acquire) {         \
      MM_FOR_SCOPE(scope, STATEMENT, "acquire", __VA_ARGS__); \
    } else if constexpr ((order) == Order::release) {         \
      MM_FOR_SCOPE(scope, STATEMENT, "release", __VA_ARGS__); \
    } else {                                                  \
      MM_FOR_SCOPE(scope, STATEMENT, "acq_rel", __VA_ARGS__); \
    }                                                         \
  } while (false)
#define MM_ATOM(scope, order, operation, constraint)                         \
  asm volatile("atom." order "." scope ".global." operation " %0, [%1], %2;" \
               : "=" constraint(before)                                      \
               : "l"(address), constraint(value)                             \
               : "memory")
#define MM_CAS(scope, order, type, constraint)                                  \
  asm volatile("atom." order "." scope ".global.cas." type " %0, [%1], %2, %3;" \
               : "=" constraint(before)                                         \
               : "l"(address), constraint(expected), constraint(desired)        \
               : "memory")
#define MM_RED(scope, order, operation, constraint) \
  asm volatile("red." order "." scope ".global." operation " [%0], %1;" ::"l"(address), constraint(value) : "memory")
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses.
// name(address, value) for one type: `operation` is the PTX text, `change` what the emulator computes from `old`.
#if defined(__CUDACC__)
#define MM_ATOM_BODY(type, operation, constraint, change)       \
  type before;                                                  \
  MM_FOR_ORDER(kOrder, kScope, MM_ATOM, operation, constraint); \
  return before;
#else
#define MM_ATOM_BODY(type, operation, constraint, change) \
  return emu::atomic(                                     \
      address, [&]([[maybe_unused]] type old) -> type { return change; }, kOrder, kScope, where);
#endif
#define MM_DEFINE_ATOM(name, type, operation, constraint, change) \
  template <Order kOrder, Scope kScope>                           \
  MM_DEVICE type name(type* address, type value MM_WHERE) {       \
    MM_ATOM_BODY(type, operation, constraint, change)             \
  }

MM_DEFINE_ATOM(atom_add, uint32_t, "add.u32", "r", old + value)
MM_DEFINE_ATOM(atom_add, uint64_t, "add.u64", "l", old + value)
MM_DEFINE_ATOM(atom_min, uint32_t, "min.u32", "r", std::min(old, value))
MM_DEFINE_ATOM(atom_min, uint64_t, "min.u64", "l", std::min(old, value))
MM_DEFINE_ATOM(atom_max, uint32_t, "max.u32", "r", std::max(old, value))
MM_DEFINE_ATOM(atom_max, uint64_t, "max.u64", "l", std::max(old, value))
MM_DEFINE_ATOM(atom_or, uint32_t, "or.b32", "r", old | value)
MM_DEFINE_ATOM(atom_or, uint64_t, "or.b64", "l", old | value)
MM_DEFINE_ATOM(atom_and, uint32_t, "and.b32", "r", old& value)
MM_DEFINE_ATOM(atom_and, uint64_t, "and.b64", "l", old& value)
MM_DEFINE_ATOM(atom_exch, uint32_t, "exch.b32", "r", value)
MM_DEFINE_ATOM(atom_exch, uint64_t, "exch.b64", "l", value)
#undef MM_DEFINE_ATOM
#undef MM_ATOM_BODY

/// Stores `desired` where `expected` stands. Returns what stood there.
template <Order kOrder, Scope kScope>
MM_DEVICE uint32_t atom_cas(uint32_t* address, uint32_t expected, uint32_t desired MM_WHERE) {
#if defined(__CUDACC__)
  uint32_t before;
  MM_FOR_ORDER(kOrder, kScope, MM_CAS, "b32", "r");
  return before;
#else
  return emu::atomic(
      address, [&](uint32_t old) { return old == expected ? desired : old; }, kOrder, kScope, where);
#endif
}
template <Order kOrder, Scope kScope>
MM_DEVICE uint64_t atom_cas(uint64_t* address, uint64_t expected, uint64_t desired MM_WHERE) {
#if defined(__CUDACC__)
  uint64_t before;
  MM_FOR_ORDER(kOrder, kScope, MM_CAS, "b64", "l");
  return before;
#else
  return emu::atomic(
      address, [&](uint64_t old) { return old == expected ? desired : old; }, kOrder, kScope, where);
#endif
}

// Without a result. kOrder: relaxed or release.
#if defined(__CUDACC__)
#define MM_RED_BODY(type, operation, constraint, change)                                       \
  static_assert(kOrder == Order::relaxed || kOrder == Order::release, "red acquires nothing"); \
  if constexpr (kOrder == Order::release) {                                                    \
    MM_FOR_SCOPE(kScope, MM_RED, "release", operation, constraint);                            \
  } else {                                                                                     \
    MM_FOR_SCOPE(kScope, MM_RED, "relaxed", operation, constraint);                            \
  }
#else
#define MM_RED_BODY(type, operation, constraint, change)                                       \
  static_assert(kOrder == Order::relaxed || kOrder == Order::release, "red acquires nothing"); \
  emu::atomic(                                                                                 \
      address, [&]([[maybe_unused]] type old) -> type { return change; }, kOrder, kScope, where);
#endif
#define MM_DEFINE_RED(name, type, operation, constraint, change) \
  template <Order kOrder, Scope kScope>                          \
  MM_DEVICE void name(type* address, type value MM_WHERE) {      \
    MM_RED_BODY(type, operation, constraint, change)             \
  }
MM_DEFINE_RED(red_add, uint32_t, "add.u32", "r", old + value)
MM_DEFINE_RED(red_add, uint64_t, "add.u64", "l", old + value)
MM_DEFINE_RED(red_add, float, "add.f32", "f", emu::add_in_memory(old, value))
MM_DEFINE_RED(red_max, uint32_t, "max.u32", "r", std::max(old, value))
MM_DEFINE_RED(red_or, uint32_t, "or.b32", "r", old | value)
MM_DEFINE_RED(red_or, uint64_t, "or.b64", "l", old | value)
#undef MM_DEFINE_RED
#undef MM_RED_BODY
// NOLINTEND(bugprone-macro-parentheses)

#if defined(__CUDACC__)
#undef MM_ATOM
#undef MM_CAS
#undef MM_RED
#endif

/// Atomic add on this block's shared memory. Returns the value before.
MM_DEVICE uint32_t shared_atom_add(uint32_t* address, uint32_t value MM_WHERE) {
#if defined(__CUDACC__)
  uint32_t before;
  asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(address))), "r"(value)
               : "memory");
  return before;
#else
  return emu::shared_atomic(
      address, [&](uint32_t old) { return old + value; }, where);
#endif
}

/// Raises a word of this block's shared memory to at least `value`. Returns the value before.
MM_DEVICE uint32_t shared_atom_max(uint32_t* address, uint32_t value MM_WHERE) {
#if defined(__CUDACC__)
  uint32_t before;
  asm volatile("atom.relaxed.cta.shared::cta.max.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(address))), "r"(value)
               : "memory");
  return before;
#else
  return emu::shared_atomic(
      address, [&](uint32_t old) { return std::max(old, value); }, where);
#endif
}

}  // namespace megamoe::ptx
