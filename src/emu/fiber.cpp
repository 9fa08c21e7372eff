#include "emu/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <new>

namespace megamoe::emu {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kSlabStacks = 64;

}  // namespace

StackPool::StackPool(size_t stack_bytes) : stack_bytes_((stack_bytes + kPageBytes - 1) / kPageBytes * kPageBytes) {}

StackPool::~StackPool() {
  for (void* slab : slabs_) munmap(slab, kSlabStacks * (stack_bytes_ + kPageBytes));
}

void StackPool::grow() {
  const size_t step = stack_bytes_ + kPageBytes;
  void* slab = mmap(nullptr, kSlabStacks * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) throw std::bad_alloc();
  slabs_.push_back(slab);
  for (size_t i = 0; i < kSlabStacks; ++i) {
    void* stack = static_cast<std::byte*>(slab) + i * step + kPageBytes;
    if (mprotect(stack, stack_bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    free_.push_back(stack);
  }
}

StackPool& stack_pool(size_t stack_bytes) {
  thread_local std::map<size_t, StackPool> pools;
  return pools.try_emplace(stack_bytes, stack_bytes).first->second;
}

boost::context::stack_context StackPool::take() {
  if (free_.empty()) grow();
  // Stacks that all began at the same place of a page would share a few sets of every cache.
  constexpr size_t kLineBytes = 64;
  const size_t colour = reinterpret_cast<uintptr_t>(free_.back()) / (stack_bytes_ + kPageBytes) % kLineBytes;
  boost::context::stack_context stack;
  stack.size = stack_bytes_ - colour * kLineBytes;
  stack.sp = static_cast<std::byte*>(free_.back()) + stack.size;
  free_.pop_back();
  return stack;
}

void StackPool::give_back(const boost::context::stack_context& stack) {
  free_.push_back(static_cast<std::byte*>(stack.sp) - stack.size);
}

}  // namespace megamoe::emu
