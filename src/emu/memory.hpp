#pragma once

// Loads, stores and atomics of the generic proxy. The plain ones are inline: they are most of what a kernel does.

#include <cstdint>
#include <cstring>

#include "cuda/ptx/scope.hpp"
#include "emu/findings.hpp"
#include "emu/step.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

/// How an access takes part in the memory model. `weak` ones are ordinary loads and stores.
struct AccessKind {
  enum class Strength : uint8_t { weak, strong } strength = Strength::weak;
  ptx::Order order = ptx::Order::relaxed;
  ptx::Scope scope = ptx::Scope::cta;
};

namespace detail {

/// `count` copies of one state byte.
template <uint32_t kBytes>
constexpr uint64_t repeated(uint8_t state) {
  return (kBytes >= 8 ? 0x0101010101010101ULL : (1ULL << (8 * kBytes % 64)) / 255) * state;
}

template <uint32_t kBytes>
uint64_t combined_states(const uint8_t* states, uint64_t* any) {
  uint64_t low = 0;
  std::memcpy(&low, states, kBytes >= 8 ? 8 : kBytes);
  *any = low;
  if constexpr (kBytes == 16) {
    uint64_t high = 0;
    std::memcpy(&high, states + 8, 8);
    *any = low | high;
    low &= high;
  }
  return low;
}

/// Whether the running lane may touch these bytes without a closer look: allocated, no mbarrier, not under a copy, and
/// if shared, its own block's.
template <uint32_t kBytes>
bool is_plain(const void* address, uint8_t wanted, uint8_t unwanted) {
  World& machine = world();
  if (!machine.arena->contains(address) || reinterpret_cast<uintptr_t>(address) % kBytes != 0) return false;
  uint64_t any = 0;
  const uint64_t all = combined_states<kBytes>(machine.arena->states(address), &any);
  if ((all & repeated<kBytes>(wanted)) != repeated<kBytes>(wanted)) return false;
  if ((any & repeated<kBytes>(unwanted)) != 0) return false;
  return (any & kShared) == 0 || machine.owner_of(address) == self().block;
}

}  // namespace detail

/// Looks closely at an access that is not plain: notes or fails with what is wrong with it, or finds that it is right.
void check_access(const void* address, uint32_t num_bytes, bool reads, bool writes, const Where& where);
/// Loads that races or delayed stores have a say in, and all strong ones.
void watched_load(void* destination, const void* source, uint32_t num_bytes, AccessKind kind, const Where& where);
void watched_store(void* destination, const void* source, uint32_t num_bytes, AccessKind kind, const Where& where);

template <class T>
T load(const T* source, const Where& where) {
  constexpr uint32_t kBytes = sizeof(T);
  static_assert(kBytes == 1 || kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16);
  step();
  if (!detail::is_plain<kBytes>(source, kAllocated | kWritten, kMBarrier | kCopyWrites)) {
    check_access(source, kBytes, true, false, where);
  }
  if (world().watches_accesses) {
    T value;
    watched_load(&value, source, kBytes, {}, where);
    return value;
  }
  return *source;
}

/// Bits of every accumulator register between wgmma_mma_async and the wgmma_wait_group that ends it: a quiet NaN that
/// no arithmetic makes.
inline constexpr uint32_t kUnfinishedD = 0x7FD0F1D0;
/// Notes a finding when one of the words, of either sign, is an unfinished accumulator: it was read too early.
void check_finished(const void* words, uint32_t num_words, const Where& where);

template <class T>
void store(T* destination, const T& value, const Where& where) {
  constexpr uint32_t kBytes = sizeof(T);
  static_assert(kBytes == 1 || kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16);
  step();
  if (!detail::is_plain<kBytes>(destination, kAllocated, kMBarrier | kCopyWrites | kCopyReads)) {
    check_access(destination, kBytes, false, true, where);
  }
  World& machine = world();
  if (kBytes >= 4 && machine.has_mma) check_finished(&value, kBytes / 4, where);
  ++machine.version;
  uint8_t* states = machine.arena->states(destination);
  if ((states[0] & kShared) != 0) machine.arena->stamp(destination) = machine.owner_of(destination)->num_proxy_fences;
  for (uint32_t i = 0; i < kBytes; ++i) states[i] |= kWritten;
  if (machine.watches_accesses) return watched_store(destination, &value, kBytes, {}, where);
  *destination = value;
}

// Strong accesses: ld/st with a scope, of global memory.
void strong_load(void* destination, const void* source, uint32_t num_bytes, ptx::Order order, ptx::Scope scope,
                 const Where& where);
void strong_store(void* destination, const void* source, uint32_t num_bytes, ptx::Order order, ptx::Scope scope,
                  const Where& where);

/// The instructions for global and for shared memory are different ones.
enum class StateSpace : uint8_t { global, shared };

/// Before and after the read-modify-write of an atomic; the caller does the arithmetic between them, undisturbed.
void begin_atomic(const void* address, uint32_t num_bytes, StateSpace space, ptx::Order order, ptx::Scope scope,
                  const Where& where);
void end_atomic(const void* address, uint32_t num_bytes, uint64_t before, uint64_t after, const Where& where);

/// One atomic: `change` maps the old value to the new one. Returns the old value.
template <class T, class Change>
T atomic(T* address, Change change, ptx::Order order, ptx::Scope scope, const Where& where,
         StateSpace space = StateSpace::global) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  begin_atomic(address, sizeof(T), space, order, scope, where);
  const T before = *address;
  const T after = change(before);
  *address = after;
  uint64_t before_bits = 0;
  uint64_t after_bits = 0;
  std::memcpy(&before_bits, &before, sizeof(T));
  std::memcpy(&after_bits, &after, sizeof(T));
  end_atomic(address, sizeof(T), before_bits, after_bits, where);
  return before;
}

/// A relaxed atomic on shared memory of the own block.
template <class T, class Change>
T shared_atomic(T* address, Change change, const Where& where) {
  return atomic(address, change, ptx::Order::relaxed, ptx::Scope::cta, where, StateSpace::shared);
}

/// FP32 addition as the memory system does it, in red, atom and bulk reductions on global memory: subnormal inputs and
/// results become zeros of their sign.
float add_in_memory(float a, float b);

/// fence.acq_rel.
void fence(ptx::Scope scope, const Where& where);

/// Lets the arguments of a prefetch be checked.
void prefetch(const void* address, uint32_t num_bytes, const Where& where);

}  // namespace megamoe::emu
