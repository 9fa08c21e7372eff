#pragma once

// What a barrier is good for: every thread of every block of every rank writes a word, all meet, every thread reads the
// words of others, all meet again, and so on.

#include "cuda/simt/block.hpp"
#include "emulated_ranks.hpp"

namespace megamoe::sync::testing {

struct Shape {
  uint32_t num_ranks = 1;
  uint32_t num_blocks = 3;
  uint32_t num_threads = 64;
};
inline constexpr uint32_t kNumRounds = 3;

/// words[rank]: [num_blocks, num_threads], then one word that counts what was read wrong.
using Words = std::vector<uint32_t*>;

inline Words allocate_words(EmulatedRanks& ranks, const Shape& shape) {
  Words words;
  const size_t count = size_t{shape.num_blocks} * shape.num_threads + 1;
  for (uint32_t r = 0; r < shape.num_ranks; ++r) {
    words.push_back(ranks.machine().allocate<uint32_t>(r, count));
    ranks.machine().fill(words[r] + count - 1, 0, sizeof(uint32_t));
  }
  return words;
}

/// One thread's part. Reads words of the next block of the next rank. `meet(waiter, shared word)` is the barrier.
template <class Meet>
void run_rounds(const EmulatedRanks& ranks, const Words& words, const Shape& shape, uint32_t rank, Meet meet) {
  const Waiter waiter = ranks.waiter(rank, shape.num_blocks);
  auto* verdict = reinterpret_cast<uint32_t*>(simt::dynamic_shared());
  const uint32_t thread = simt::thread_idx();
  const uint32_t reads_block = (simt::block_idx() + 1) % shape.num_blocks;
  const uint32_t* theirs = words[(rank + 1) % shape.num_ranks] + reads_block * shape.num_threads;
  for (uint32_t round = 1; round <= kNumRounds; ++round) {
    simt::store(words[rank] + simt::block_idx() * shape.num_threads + thread, round);
    if (!meet(waiter, verdict)) return;
    if (simt::load(theirs + (thread ^ 32U)) != round) {
      uint32_t* num_wrong = words[rank] + size_t{shape.num_blocks} * shape.num_threads;
      ptx::red_add<ptx::Order::relaxed, ptx::Scope::gpu>(num_wrong, 1U);
    }
    if (!meet(waiter, verdict)) return;
  }
}

/// Words that were read before they were written, all ranks together.
inline uint32_t num_wrong(const Words& words, const Shape& shape) {
  uint32_t sum = 0;
  for (const uint32_t* of_rank : words) sum += of_rank[size_t{shape.num_blocks} * shape.num_threads];
  return sum;
}

}  // namespace megamoe::sync::testing
