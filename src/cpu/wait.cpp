#include "cpu/wait.hpp"

#include <sched.h>

#include <thread>

namespace megamoe::cpu {
namespace {

constexpr uint32_t kSpinSteps = 256;    // about 10 us: longer than a flag takes between two cores
constexpr uint32_t kYieldSteps = 4096;  // some ms when nobody else wants the core
constexpr auto kSleep = std::chrono::microseconds(50);

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Writes this rank's fault record, unless a worker already has, and raises every rank's abort flag.
void record_fault(const Worker& worker, const Watched& watched, uint64_t seen) {
  auto* fault = worker.local.own.get<flow::Field::fault>();
  uint32_t expected = 0;
  // 1 while it is being written, 2 when it may be read.
  if (std::atomic_ref<uint32_t>(fault->is_set).compare_exchange_strong(expected, 1U)) {
    fault->rank = num(worker.local.rank);
    fault->worker = worker.worker_idx;
    fault->stage = static_cast<uint32_t>(worker.stage);
    fault->field = static_cast<uint32_t>(watched.field);
    fault->index = watched.index;
    fault->seen = seen;
    fault->wanted = watched.wanted;
    store_release(&fault->is_set, 2U);
  }
  for (uint32_t r = 0; r < worker.rules.dims.num_ranks; ++r) {
    store_release(worker.local.peers.at(flow::Rank{r}).get<flow::Field::abort_flag>(), 1U);  // publish(abort_flag)
  }
}

}  // namespace

Patience::Patience(Worker& worker, std::chrono::milliseconds limit)
    : worker_(worker), begin_(Clock::now()), limit_(limit) {}

Patience::~Patience() { worker_.stage_wait_seconds += std::chrono::duration<double>(Clock::now() - begin_).count(); }

GoOn Patience::step(const Watched& watched, uint64_t seen) {
  if (++num_steps_ <= kSpinSteps) {
    cpu_pause();
    return true;
  }
  if (load_acquire(worker_.local.own.get<flow::Field::abort_flag>()) != 0U) return false;  // consume(abort_flag)
  if (Clock::now() - begin_ > limit_) {
    record_fault(worker_, watched, seen);
    return false;
  }
  if (num_steps_ <= kYieldSteps) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
  return true;
}

}  // namespace megamoe::cpu
