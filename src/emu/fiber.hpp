#pragma once

// Stacks and switches: what the emulator needs of Boost.Context.

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <vector>

namespace megamoe::emu {

using Context = boost::context::fiber;

/// Stacks of one size with a guard page below each, taken from the system once and reused by later lanes and runs.
class StackPool {
 public:
  explicit StackPool(size_t stack_bytes);
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  size_t stack_bytes() const { return stack_bytes_; }
  boost::context::stack_context take();
  void give_back(const boost::context::stack_context& stack);

 private:
  void grow();

  size_t stack_bytes_;
  std::vector<void*> free_;   // lowest usable address of each
  std::vector<void*> slabs_;  // mappings of kSlabStacks stacks
};

/// The pool of this operating-system thread for one size of stack: a test that makes hundreds of machines maps stacks
/// once.
StackPool& stack_pool(size_t stack_bytes);

/// The allocator that boost::context::fiber wants; the pool outlives every fiber.
class PooledStack {
 public:
  explicit PooledStack(StackPool& pool) : pool_(&pool) {}
  boost::context::stack_context allocate() { return pool_->take(); }
  void deallocate(boost::context::stack_context& stack) { pool_->give_back(stack); }

 private:
  StackPool* pool_;
};

}  // namespace megamoe::emu
