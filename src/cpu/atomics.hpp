#pragma once

// The few atomic operations the flow needs, on plain workspace memory that threads or processes share.

#include <atomic>

namespace megamoe::cpu {

template <class T>
T load_acquire(const T* address) {
  return std::atomic_ref<T>(*const_cast<T*>(address)).load(std::memory_order_acquire);
}
template <class T>
void store_release(T* address, T value) {
  std::atomic_ref<T>(*address).store(value, std::memory_order_release);
}
/// Returns the value before. Acquire and release: a chain of adds orders all that came before each of them.
template <class T>
T fetch_add(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_acq_rel);
}
template <class T>
void fetch_or_release(T* address, T value) {
  std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_release);
}
/// Takes a number; orders nothing.
template <class T>
T fetch_add_relaxed(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}

}  // namespace megamoe::cpu
