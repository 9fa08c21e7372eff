// Speed of the emulated machine on one core: lane-steps (layer calls by single lanes) per second.
//
//   emu_bench                                   all
//   emu_bench --benchmark_filter=stages         a kernel like the real ones: 2 ranks, 4 blocks, 384 threads
//
// The target is 2 million lane-steps per second without race detection.

#include <benchmark/benchmark.h>

#include <string>

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "emu/machine.hpp"

namespace megamoe::emu {
namespace {

using ptx::Order;
using ptx::Scope;

constexpr uint32_t kNumWords = 1U << 16U;

/// Plain loads and stores, nothing that waits.
void copy_words(uint32_t* words) {
  const uint32_t half = kNumWords / 2;
  for (uint32_t i = simt::block_idx() * simt::num_threads() + simt::thread_idx(); i < half;
       i += simt::num_blocks() * simt::num_threads()) {
    simt::store(words + half + i, simt::load(words + i) + 1);
  }
}

/// Every step a collective.
void reduce_in_warps(uint32_t* words) {
  uint32_t value = simt::thread_idx();
  for (uint32_t round = 0; round < 64; ++round) value = simt::shfl_xor(simt::kAllLanes, value, 1U << round % 5) + 1;
  simt::store(words + simt::block_idx() * simt::num_threads() + simt::thread_idx(), value);
}

/// One warp pulls rows through a ring of stages, the others work on them; blocks count and meet at a grid barrier.
void stages(uint32_t* words, uint32_t* counter) {
  constexpr uint32_t kNumStages = 4;
  constexpr uint32_t kRowBytes = 2048;
  constexpr uint32_t kNumRounds = 24;
  auto* full = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
  uint64_t* empty = full + kNumStages;
  uint8_t* rows = simt::dynamic_shared() + 1024;
  const uint32_t num_consumers = simt::num_threads() - 32;
  if (simt::thread_idx() < kNumStages) {
    ptx::mbarrier_init(full + simt::thread_idx(), 1);
    ptx::mbarrier_init(empty + simt::thread_idx(), num_consumers / 32);
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  if (simt::warp_idx() == 0) {
    for (uint32_t round = 0; round < kNumRounds && simt::lane_idx() == 0; ++round) {
      const uint32_t stage = round % kNumStages;
      ptx::mbarrier_wait(empty + stage, (round / kNumStages & 1U) ^ 1U);
      ptx::mbarrier_arrive_expect_tx(full + stage, kRowBytes);
      ptx::bulk_load(rows + stage * kRowBytes, words + round * kRowBytes / 4, kRowBytes, full + stage);
    }
  } else {
    uint32_t sum = 0;
    for (uint32_t round = 0; round < kNumRounds; ++round) {
      const uint32_t stage = round % kNumStages;
      ptx::mbarrier_wait(full + stage, round / kNumStages & 1U);
      const auto* row = reinterpret_cast<const uint32_t*>(rows + stage * kRowBytes);
      for (uint32_t i = simt::thread_idx() - 32; i < kRowBytes / 4; i += num_consumers) sum += simt::load(row + i);
      simt::syncwarp();
      if (simt::elect_one()) ptx::mbarrier_arrive(empty + stage);
    }
    sum = simt::reduce_add(simt::kAllLanes, sum);
    if (simt::lane_idx() == 0) ptx::red_add<Order::relaxed, Scope::gpu>(counter + 1, sum);
  }
  simt::sync_threads();
  if (simt::thread_idx() == 0) {
    ptx::red_add<Order::release, Scope::gpu>(counter, 1U);
    while (ptx::ld_acquire<Scope::gpu>(counter) != simt::num_blocks()) {
    }
  }
  simt::sync_threads();
}

template <class Kernel>
void run(benchmark::State& state, Options options, Launch launch, Kernel kernel) {
  options.num_ranks = 2;
  options.memory_bytes = 4 << 20;
  Result<Machine> machine = Machine::create(options);
  uint32_t* words[2];
  uint32_t* counters[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    words[rank] = machine->allocate<uint32_t>(rank, kNumWords);
    counters[rank] = machine->allocate<uint32_t>(rank, 64);
    machine->fill(words[rank], 1, kNumWords * sizeof(uint32_t));
  }
  uint64_t num_steps = 0;
  uint64_t num_switches = 0;
  uint64_t seed = 0;
  for (auto _ : state) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      machine->fill(counters[rank], 0, 256);
      launch.rank = rank;
      if (!machine->launch(launch, [=] { kernel(words[rank], counters[rank]); }).ok()) {
        return state.SkipWithError("refused");
      }
    }
    const Report report = machine->run(++seed);
    if (!report.clean()) return state.SkipWithError(report.to_string().c_str());
    num_steps += report.num_steps;
    num_switches += report.num_switches;
  }
  state.counters["steps"] = benchmark::Counter(static_cast<double>(num_steps), benchmark::Counter::kIsRate);
  state.counters["switches"] = benchmark::Counter(static_cast<double>(num_switches), benchmark::Counter::kIsRate);
}

void add_benchmarks(const char* mode, const Options& options) {
  const Launch launch{.num_blocks = 4, .num_threads = 384, .shared_bytes = 16384};
  const auto add = [&](const char* name, auto kernel) {
    const std::string full_name = std::string(name) + "/" + mode;
    benchmark::RegisterBenchmark(full_name.c_str(),
                                 [=](benchmark::State& state) { run(state, options, launch, kernel); })
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.5);
  };
  add("copy_words", [](uint32_t* words, uint32_t*) { copy_words(words); });
  add("reduce_in_warps", [](uint32_t* words, uint32_t*) { reduce_in_warps(words); });
  add("stages", [](uint32_t* words, uint32_t* counter) { stages(words, counter); });
}

}  // namespace
}  // namespace megamoe::emu

int main(int argc, char** argv) {
  using namespace megamoe::emu;
  add_benchmarks("plain", {});
  add_benchmarks("races", {.races = Races::find});
  add_benchmarks("delayed", {.stores = Stores::delayed});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
