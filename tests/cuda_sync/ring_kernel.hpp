#pragma once

// A kernel that is all ring: the producer copies rows, consumer warps add up their words.

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/sync/ring.hpp"
#include "emulated_ranks.hpp"

namespace megamoe::sync::testing {

inline constexpr uint32_t kNumSlots = 3;
inline constexpr uint32_t kNumRows = 8;
inline constexpr uint32_t kRowWords = 64;
inline constexpr uint32_t kRowBytes = kRowWords * sizeof(uint32_t);
inline constexpr uint32_t kHeadBytes = kRowBytes / 4;
inline constexpr uint32_t kConsumerWarps = 2;
inline constexpr uint32_t kRingThreads = (1 + kConsumerWarps) * simt::kWarpLanes;

using TestRing = Ring<kNumSlots>;
using Cursor = RingCursor<kNumSlots>;

/// The block's shared memory, by part.
struct RingMemory {
  static constexpr uint32_t kNumBytes = 1024 + kNumSlots * kRowBytes;

  static RingState<kNumSlots>* state() { return reinterpret_cast<RingState<kNumSlots>*>(simt::dynamic_shared()); }
  static uint32_t* row(const Cursor& at) {
    return reinterpret_cast<uint32_t*>(simt::dynamic_shared() + 1024 + at.slot * kRowBytes);
  }
};

/// What the kernel works on. All in global memory.
struct RingData {
  const uint32_t* rows = nullptr;  // [kNumRows, kRowWords]
  uint32_t* sums = nullptr;        // [kNumRows, kConsumerWarps]: each warp its share of the words
  uint32_t* num_taken = nullptr;   // [kConsumerWarps], items
};

inline uint32_t row_word(uint32_t i) { return i * 2'654'435'761U; }
inline uint32_t tag_of(uint32_t row) { return row * 5 + 1; }

/// Thread 0 makes the ring.
inline TestRing make_ring() {
  const TestRing ring(RingMemory::state());
  if (simt::thread_idx() == 0) ring.init(kConsumerWarps);
  simt::sync_threads();
  return ring;
}

/// The head of a row, before anything is known about the rest of it.
inline void load_head(const TestRing& ring, const Cursor& at, const RingData& data, uint32_t row) {
  ring.expect(at, kHeadBytes);
  ptx::bulk_load(RingMemory::row(at), data.rows + row * kRowWords, kHeadBytes, ring.filled(at));
}

inline void load_rest(const TestRing& ring, const Cursor& at, const RingData& data, uint32_t row) {
  constexpr uint32_t kHeadWords = kHeadBytes / sizeof(uint32_t);
  ring.publish(at, kRowBytes - kHeadBytes, tag_of(row));
  ptx::bulk_load(RingMemory::row(at) + kHeadWords, data.rows + row * kRowWords + kHeadWords, kRowBytes - kHeadBytes,
                 ring.filled(at));
}

/// One warp's part of an item.
inline void add_up(const Cursor& at, const RingData& data, uint32_t tag, uint32_t consumer_idx) {
  const uint32_t sum = simt::reduce_add(simt::kAllLanes, simt::load(RingMemory::row(at) + simt::thread_idx() - 32));
  const uint32_t row = (tag - 1) / 5;
  if (simt::lane_idx() == 0) simt::store(data.sums + row * kConsumerWarps + consumer_idx, sum);
}

/// Takes items until the last row, or until the ring stops.
inline void consume(const TestRing& ring, const Waiter& waiter, const RingData& data) {
  const uint32_t consumer_idx = simt::warp_idx() - 1;
  Cursor at;
  for (uint32_t row = 0; row < kNumRows; ++row, at.advance()) {
    const uint32_t tag = ring.wait_filled(waiter, at);
    if (tag == kRingStop) break;
    add_up(at, data, tag, consumer_idx);
    ring.release(at);
  }
  if (simt::lane_idx() == 0) simt::store(data.num_taken + consumer_idx, static_cast<uint32_t>(at.num_items()));
}

/// Rows and zeroed results on rank 0.
inline RingData make_ring_data(EmulatedRanks& ranks) {
  std::vector<uint32_t> words(size_t{kNumRows} * kRowWords);
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = row_word(i);
  emu::Machine& machine = ranks.machine();
  auto* rows = machine.allocate<uint32_t>(0, words.size());
  machine.write(rows, words.data(), words.size() * sizeof(uint32_t));
  RingData data{rows, machine.allocate<uint32_t>(0, kNumRows * kConsumerWarps),
                machine.allocate<uint32_t>(0, kConsumerWarps)};
  machine.fill(data.sums, 0, sizeof(uint32_t) * kNumRows * kConsumerWarps);
  machine.fill(data.num_taken, 0xFF, sizeof(uint32_t) * kConsumerWarps);
  return data;
}

/// The first `num_rows` rows were added up right, and no others.
inline void expect_sums(const RingData& data, uint32_t num_rows) {
  for (uint32_t row = 0; row < kNumRows; ++row) {
    for (uint32_t c = 0; c < kConsumerWarps; ++c) {
      uint32_t wanted = 0;
      for (uint32_t i = 0; i < 32 && row < num_rows; ++i) wanted += row_word(row * kRowWords + c * 32 + i);
      EXPECT_EQ(data.sums[row * kConsumerWarps + c], wanted) << "row " << row << ", consumer " << c;
    }
  }
  for (uint32_t c = 0; c < kConsumerWarps; ++c) EXPECT_EQ(data.num_taken[c], num_rows);
}

}  // namespace megamoe::sync::testing
