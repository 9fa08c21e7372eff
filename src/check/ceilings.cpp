#include "check/ceilings.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "cpu/kernels/kernels.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kNumRuns = 6;
constexpr std::chrono::milliseconds kComputeRunTime{15};
constexpr uint64_t kMinReadBytes = 512'000'000;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Runs work(thread_idx) kNumRuns times on every thread, all threads starting each run together, and returns the
/// seconds of the shortest run, from the common start to the last thread's end.
template <class Work>
double shortest_run(uint32_t num_threads, Work work) {
  double best_seconds = 0.0;
  std::barrier gate(num_threads);
  const auto body = [&](uint32_t thread_idx) {
    for (uint32_t run = 0; run < kNumRuns; ++run) {
      gate.arrive_and_wait();
      const Clock::time_point begin = Clock::now();
      work(thread_idx);
      gate.arrive_and_wait();
      const double seconds = seconds_since(begin);
      if (thread_idx == 0 && (run == 0 || seconds < best_seconds)) best_seconds = seconds;
    }
  };
  std::vector<std::jthread> threads;
  for (uint32_t thread_idx = 1; thread_idx < num_threads; ++thread_idx) threads.emplace_back(body, thread_idx);
  body(0);
  threads.clear();
  return best_seconds;
}

/// Steps that take about kComputeRunTime on one thread.
uint64_t calibrate_steps(const cpu::Kernels& kernels, std::atomic<float>& sink) {
  for (uint64_t num_steps = 1024;; num_steps *= 2) {
    const Clock::time_point begin = Clock::now();
    sink = kernels.run_ceiling_steps(num_steps);
    if (Clock::now() - begin >= kComputeRunTime / 2) return num_steps * 2;
  }
}

Status check_num_threads(uint32_t num_threads) {
  if (num_threads > 0) return {};
  return invalid_argument("num_threads must be at least 1", num_threads, "pass the number of worker threads");
}

uint64_t read_buffer_bytes() {
  const long l3_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1 where the system does not say
  return std::max(kMinReadBytes, 4 * static_cast<uint64_t>(std::max(l3_bytes, 0L)));
}

uint64_t sum_words(const uint64_t* words, size_t num_words) {
  uint64_t sum = 0;
  for (size_t i = 0; i < num_words; ++i) sum += words[i];
  return sum;
}

}  // namespace

Result<double> measure_compute_gflops(Isa isa, uint32_t num_threads) {
  MM_RETURN_IF_ERROR(check_num_threads(num_threads));
  const Result<const cpu::Kernels*> found = cpu::find_kernels(isa);
  if (!found) return found.status();
  const cpu::Kernels& kernels = **found;
  std::atomic<float> sink = 0.0F;  // keeps the sums from being left out
  const uint64_t num_steps = calibrate_steps(kernels, sink);
  const double seconds = shortest_run(num_threads, [&](uint32_t) { sink = kernels.run_ceiling_steps(num_steps); });
  return 1e-9 * static_cast<double>(num_steps) * kernels.flops_per_ceiling_step * num_threads / seconds;
}

std::string_view compute_kind(Isa isa) {
  if (isa == Isa::amx_bf16) return "BF16 tiles";
  return isa == Isa::avx512_bf16 ? "BF16 dot products" : "FP32 multiply-adds";
}

Result<double> measure_read_gbytes_per_s(uint32_t num_threads) {
  MM_RETURN_IF_ERROR(check_num_threads(num_threads));
  const size_t words_per_thread = read_buffer_bytes() / num_threads / sizeof(uint64_t);
  const uint64_t num_bytes = words_per_thread * num_threads * sizeof(uint64_t);
  const std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[words_per_thread * num_threads]);
  if (words == nullptr) {
    return error(StatusCode::out_of_memory, "the read ceiling needs a buffer of four times the last-level cache",
                 fmt::format("no {} bytes", num_bytes), "free memory");
  }
  {
    // The thread that reads a part also touches it first, so that its pages are near.
    std::vector<std::jthread> threads;
    for (uint32_t thread_idx = 0; thread_idx < num_threads; ++thread_idx) {
      threads.emplace_back(
          [&, thread_idx] { std::fill_n(words.get() + thread_idx * words_per_thread, words_per_thread, uint64_t{1}); });
    }
  }
  std::atomic<uint64_t> sink = 0;
  const double seconds = shortest_run(num_threads, [&](uint32_t thread_idx) {
    sink += sum_words(words.get() + thread_idx * words_per_thread, words_per_thread);
  });
  return 1e-9 * static_cast<double>(num_bytes) / seconds;
}

}  // namespace megamoe
