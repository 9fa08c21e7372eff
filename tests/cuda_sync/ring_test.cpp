// The ring hands over every item, whoever runs when; a stop ends both sides at one item; what breaks it is found.

#include "ring_kernel.hpp"

namespace megamoe::sync::testing {
namespace {

constexpr uint64_t kNumPlantedSeeds = 20;

/// Runs `produce(ring, waiter)` on thread 0 and `consume(ring, waiter)` on the consumer warps of one block.
template <class Produce, class Consume>
emu::Report run(EmulatedRanks& ranks, Produce produce, Consume take) {
  ranks.launch(0, 1, kRingThreads, RingMemory::kNumBytes, [&] {
    const Waiter waiter = ranks.waiter(0, 1);
    const TestRing ring = make_ring();
    if (simt::thread_idx() == 0) produce(ring, waiter);
    if (simt::warp_idx() > 0) take(ring, waiter);
  });
  return ranks.machine().run();
}

emu::Options stalling_options(uint64_t seed) {
  emu::Options options = options_of(seed);
  options.stall = emu::Stall::advances_clock;
  return options;
}

/// The producer whose heads run ahead of what it publishes by up to `num_ahead` slots. Before row `stop_row` it learns
/// that it has to stop.
void produce_ahead(const TestRing& ring, const Waiter& waiter, const RingData& data, uint32_t num_ahead,
                   uint32_t stop_row = kNumRows) {
  Cursor next;
  Cursor ahead;
  for (uint32_t row = 0; row < kNumRows; ++row, next.advance()) {
    while (ahead.num_items() < kNumRows && ahead.num_items() <= row + num_ahead) {
      if (!ring.wait_released(waiter, ahead)) return ring.stop(waiter, next, ahead);
      load_head(ring, ahead, data, static_cast<uint32_t>(ahead.num_items()));
      ahead.advance();
    }
    if (row == stop_row) return ring.stop(waiter, next, ahead);
    load_rest(ring, next, data, row);
  }
}

TEST(Ring, HandsOverEveryItem) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), options_of(seed));
    const RingData data = make_ring_data(ranks);
    const auto num_ahead = static_cast<uint32_t>(seed % kNumSlots);
    const emu::Report report = run(
        ranks, [&](auto& ring, auto& waiter) { produce_ahead(ring, waiter, data, num_ahead); },
        [&](auto& ring, auto& waiter) { consume(ring, waiter, data); });
    ASSERT_TRUE(report.clean()) << report.to_string();
    expect_sums(data, kNumRows);
  }
}

/// Whenever the producer stops, with or without heads under way: all consumers took all items before, and no other.
TEST(Ring, StopsBothSidesAtOneItem) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), options_of(seed));
    const RingData data = make_ring_data(ranks);
    const auto num_ahead = static_cast<uint32_t>(seed % kNumSlots);
    const auto stop_row = static_cast<uint32_t>(seed / kNumSlots % kNumRows);
    const emu::Report report = run(
        ranks, [&](auto& ring, auto& waiter) { produce_ahead(ring, waiter, data, num_ahead, stop_row); },
        [&](auto& ring, auto& waiter) { consume(ring, waiter, data); });
    ASSERT_TRUE(report.clean()) << report.to_string();
    expect_sums(data, stop_row);
    EXPECT_EQ(ranks.workspace(0).get<flow::Field::fault>()->is_set, 0U);
  }
}

/// Somebody raises the abort flag while the ring is full and its consumers are late. Returns how many items they took.
uint32_t take_until_abort(uint64_t seed) {
  EmulatedRanks ranks(small_dims(1), stalling_options(seed));
  const RingData data = make_ring_data(ranks);
  const emu::Report report = run(
      ranks, [&](auto& ring, auto& waiter) { produce_ahead(ring, waiter, data, 0); },
      [&](auto& ring, auto& waiter) {
        uint32_t* abort_flag = waiter.own().template get<flow::Field::abort_flag>();
        if (simt::thread_idx() == 32) ptx::st_release<ptx::Scope::sys>(abort_flag, 1U);
        simt::nanosleep(1000);
        consume(ring, waiter, data);
      });
  EXPECT_TRUE(report.clean()) << report.to_string();
  expect_sums(data, data.num_taken[0]);
  EXPECT_EQ(ranks.workspace(0).get<flow::Field::fault>()->is_set, 0U);
  return data.num_taken[0];
}

TEST(Ring, AnAbortElsewhereEndsBothSides) {
  for (const uint64_t seed : seeds()) (void)take_until_abort(seed);
}

TEST(BrokenRing, MostAbortsComeBeforeTheLastItem) {
  uint64_t num_stopped = 0;
  for (uint64_t seed = 1; seed <= kNumPlantedSeeds; ++seed) num_stopped += take_until_abort(seed) < kNumRows ? 1 : 0;
  EXPECT_GT(num_stopped, kNumPlantedSeeds / 2) << "or the test above would prove little";
}

/// What the producer waits for does not come: the record names it, and consumers do not wait for their own time-out.
TEST(Ring, ASourceThatNeverComesIsNamed) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), stalling_options(seed));
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run(
        ranks,
        [&](auto& ring, auto& waiter) {
          Cursor at;
          if (!ring.wait_released(waiter, at)) return ring.stop(waiter, at, at);
          load_head(ring, at, data, 0);
          const uint32_t* arrived = waiter.own().template get<flow::Field::arrived>();
          const GoOn go_on = wait_until<ptx::Scope::gpu>(waiter, arrived, {flow::Field::arrived, 0, 1},
                                                         [](uint32_t seen) { return seen != 0; });
          if (go_on) return load_rest(ring, at, data, 0);
          Cursor ahead = at;
          ahead.advance();
          ring.stop(waiter, at, ahead);
        },
        [&](auto& ring, auto& waiter) { consume(ring, waiter, data); });
    ASSERT_TRUE(report.clean()) << report.to_string();
    expect_sums(data, 0);
    EXPECT_EQ(ranks.workspace(0).get<flow::Field::fault>()->field, static_cast<uint32_t>(flow::Field::arrived));
  }
}

// Programs that break the rules. With bounded waits both sides end and the record names the slot.

TEST(BrokenRing, AMissingReleaseIsNamedByTheProducer) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), stalling_options(seed));
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run(
        ranks, [&](auto& ring, auto& waiter) { produce_ahead(ring, waiter, data, 0); },
        [&](auto& ring, auto& waiter) {
          Cursor at;
          for (; ring.wait_filled(waiter, at) != kRingStop; at.advance()) {
            if (simt::warp_idx() == 1 || at.num_items() != 1) ring.release(at);
          }
        });
    ASSERT_TRUE(report.clean()) << report.to_string();
    const flow::FaultRecord& fault = *ranks.workspace(0).get<flow::Field::fault>();
    EXPECT_EQ(fault.field, static_cast<uint32_t>(flow::kRingReleased));
    EXPECT_EQ(fault.index, 1U);
    EXPECT_EQ(fault.wanted, 2U);
    EXPECT_EQ(fault.seen, 1U);
  }
}

TEST(BrokenRing, AProducerThatVanishesIsNamedByConsumers) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), stalling_options(seed));
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run(
        ranks,
        [&](auto& ring, auto& waiter) {
          const Cursor first;
          if (!ring.wait_released(waiter, first)) return;
          load_head(ring, first, data, 0);
          load_rest(ring, first, data, 0);
        },
        [&](auto& ring, auto& waiter) { consume(ring, waiter, data); });
    ASSERT_TRUE(report.clean()) << report.to_string();
    expect_sums(data, 1);
    const flow::FaultRecord& fault = *ranks.workspace(0).get<flow::Field::fault>();
    EXPECT_EQ(fault.field, static_cast<uint32_t>(flow::kRingFilled));
    EXPECT_EQ(fault.index, 1U);
    EXPECT_EQ(fault.wanted, 2U);
    EXPECT_EQ(ranks.workspace(0).get<flow::Field::abort_flag>()[0], 1U);
  }
}

/// Consumers that take turns: the first half of the rows is the first warp's, the second half the second's, which skips
/// the slots' earlier rounds. An mbarrier tells it when the rows before its own are published.
enum class FirstWait : uint8_t { after_others, as_usual };

template <FirstWait kFirstWait>
emu::Report run_in_turns(EmulatedRanks& ranks, const RingData& data) {
  constexpr uint32_t kHalf = kNumRows / kConsumerWarps;
  ranks.launch(0, 1, kRingThreads, RingMemory::kNumBytes, [&] {
    const Waiter waiter = ranks.waiter(0, 1);
    auto* announced = reinterpret_cast<uint64_t*>(simt::dynamic_shared() + 512);
    if (simt::thread_idx() == 0) ptx::mbarrier_init(announced, 1);
    const TestRing ring = make_ring();
    Cursor at;
    if (simt::thread_idx() == 0) {
      for (uint32_t row = 0; row < kNumRows; ++row, at.advance()) {
        if (row == kHalf) ptx::mbarrier_arrive(announced);
        if (!ring.wait_released(waiter, at)) return ring.stop(waiter, at, at);
        load_head(ring, at, data, row);
        load_rest(ring, at, data, row);
      }
      return;
    }
    if (simt::warp_idx() == 0) return;
    const uint32_t consumer_idx = simt::warp_idx() - 1;
    if (consumer_idx == 1) ptx::mbarrier_wait(announced, 0);
    for (uint32_t row = 0; row < consumer_idx * kHalf; ++row) at.advance();
    for (uint32_t i = 0; i < kHalf; ++i, at.advance()) {
      const bool is_early = kFirstWait == FirstWait::after_others && i < kNumSlots;
      const uint32_t tag = is_early ? ring.wait_filled_after_others(waiter, at) : ring.wait_filled(waiter, at);
      if (tag == kRingStop) return;
      add_up(at, data, tag, consumer_idx);
      ring.release(at, kConsumerWarps);
    }
  });
  return ranks.machine().run();
}

TEST(Ring, ConsumersTakeTurns) {
  for (const uint64_t seed : seeds()) {
    EmulatedRanks ranks(small_dims(1), options_of(seed));
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run_in_turns<FirstWait::after_others>(ranks, data);
    ASSERT_TRUE(report.clean()) << report.to_string();
    for (uint32_t row = 0; row < kNumRows; ++row) {
      const uint32_t owner = row / (kNumRows / kConsumerWarps);
      uint32_t wanted = 0;
      for (uint32_t i = 0; i < 32; ++i) wanted += row_word(row * kRowWords + owner * 32 + i);
      EXPECT_EQ(data.sums[row * kConsumerWarps + owner], wanted) << "row " << row;
    }
  }
}

/// Without that wait a consumer takes the completion of the other's item for its own: what the first version of the
/// math groups did, and how it was found.
TEST(BrokenRing, AConsumerThatMistakesAnothersItem) {
  uint64_t num_found = 0;
  for (uint64_t seed = 1; seed <= kNumPlantedSeeds; ++seed) {
    EmulatedRanks ranks(small_dims(1), {.seed = seed, .races = emu::Races::find});
    const RingData data = make_ring_data(ranks);
    if (!run_in_turns<FirstWait::as_usual>(ranks, data).clean()) ++num_found;
  }
  EXPECT_GT(num_found, 0U);
}

// Faults planted in one side, which the emulator finds in every interleaving.

template <class Produce, class Consume>
void expect_found(std::initializer_list<emu::FindingKind> kinds, Produce produce, Consume take) {
  for (uint64_t seed = 1; seed <= kNumPlantedSeeds; ++seed) {
    EmulatedRanks ranks(small_dims(1), {.seed = seed, .races = emu::Races::find});
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run(
        ranks, [&](auto& ring, auto& waiter) { produce(ring, waiter, data); },
        [&](auto& ring, auto& waiter) { take(ring, waiter, data); });
    bool is_found = false;
    for (const emu::FindingKind kind : kinds) is_found = is_found || report.found(kind);
    EXPECT_TRUE(is_found) << "seed " << seed << ": " << report.to_string();
  }
}

constexpr auto kProduce = [](const TestRing& ring, const Waiter& waiter, const RingData& data) {
  produce_ahead(ring, waiter, data, 1);
};
constexpr auto kConsume = [](const TestRing& ring, const Waiter& waiter, const RingData& data) {
  consume(ring, waiter, data);
};

using emu::FindingKind;

TEST(BrokenRing, AConsumerOfTheWrongPhase) {
  expect_found({FindingKind::unwritten_read, FindingKind::read_write_race}, kProduce,
               [](const TestRing& ring, const Waiter& waiter, const RingData&) {
                 Cursor at;
                 at.round = 1;
                 (void)ring.wait_filled(waiter, at);
               });
}

TEST(BrokenRing, AProducerOfTheWrongPhase) {
  // Its first wait is for a release that can only follow what it has not filled yet.
  expect_found(
      {FindingKind::deadlock},
      [](const TestRing& ring, const Waiter& waiter, const RingData&) {
        Cursor at;
        at.round = 1;
        (void)ring.wait_released(waiter, at);
      },
      kConsume);
}

TEST(BrokenRing, AMissingRelease) {
  expect_found({FindingKind::deadlock}, kProduce, [](const TestRing& ring, const Waiter& waiter, const RingData&) {
    for (Cursor at; at.num_items() < kNumRows; at.advance()) (void)ring.wait_filled(waiter, at);
  });
}

TEST(BrokenRing, AReleaseBeforeTheRead) {
  expect_found({FindingKind::read_write_race, FindingKind::copy_in_flight}, kProduce,
               [](const TestRing& ring, const Waiter& waiter, const RingData& data) {
                 for (Cursor at; at.num_items() < kNumRows; at.advance()) {
                   const uint32_t tag = ring.wait_filled(waiter, at);
                   ring.release(at);
                   add_up(at, data, tag, simt::warp_idx() - 1);
                 }
               });
}

TEST(BrokenRing, AReleaseThatDoesNotWaitForTheWarp) {
  expect_found({FindingKind::read_write_race, FindingKind::copy_in_flight}, kProduce,
               [](const TestRing& ring, const Waiter& waiter, const RingData&) {
                 for (Cursor at; at.num_items() < kNumRows; at.advance()) {
                   (void)ring.wait_filled(waiter, at);
                   (void)simt::load(RingMemory::row(at) + simt::thread_idx() - 32);
                   if (simt::lane_idx() == 0) ptx::mbarrier_arrive(&RingMemory::state()->released[at.slot]);
                 }
               });
}

TEST(BrokenRing, AProducerThatDoesNotWaitForTheRelease) {
  expect_found(
      {FindingKind::read_write_race, FindingKind::copy_in_flight, FindingKind::arrival_count, FindingKind::missed_phase,
       FindingKind::write_write_race},
      [](const TestRing& ring, const Waiter&, const RingData& data) {
        Cursor at;
        for (uint32_t row = 0; row < kNumRows; ++row, at.advance()) {
          load_head(ring, at, data, row);
          load_rest(ring, at, data, row);
        }
      },
      kConsume);
}

/// Publishing the tag alone is no stop: the block may end while the head of the next item is still on its way.
TEST(BrokenRing, AStopThatLeavesACopyBehind) {
  // Whether it shows depends on who is late: many seeds, so that the share that finds it is no accident.
  constexpr uint64_t kNumSeeds = 10 * kNumPlantedSeeds;
  uint64_t num_found = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    EmulatedRanks ranks(small_dims(1), {.seed = seed});
    const RingData data = make_ring_data(ranks);
    const emu::Report report = run(
        ranks,
        [&](auto& ring, auto& waiter) {
          Cursor at;
          if (!ring.wait_released(waiter, at)) return;
          ring.publish(at, 0, kRingStop);
          at.advance();
          load_head(ring, at, data, 1);
        },
        [&](auto& ring, auto& waiter) { consume(ring, waiter, data); });
    num_found += report.found(emu::FindingKind::copy_in_flight) ? 1 : 0;
  }
  EXPECT_GT(num_found, kNumSeeds / 4);
}

}  // namespace
}  // namespace megamoe::sync::testing
