#include "cpu/worker.hpp"

#include "cpu/atomics.hpp"

namespace megamoe::cpu {

void Worker::enter(Stage next) {
  const Clock::time_point now = Clock::now();
  times.busy_seconds[static_cast<size_t>(stage)] +=
      std::chrono::duration<double>(now - stage_begin).count() - stage_wait_seconds;
  times.wait_seconds += stage_wait_seconds;
  stage_wait_seconds = 0;
  stage_begin = now;
  stage = next;
}

namespace {

/// True when every rank accepted its arguments. REQUIRES the exchange barrier is behind and the next one ahead: after
/// that, a rank may already write its verdict on the next call.
bool all_accepted(Worker& worker) {
  for (uint32_t r = 0; r < worker.rules.dims.num_ranks; ++r) {
    const auto* verdict = worker.local.peers.at(flow::Rank{r}).get<flow::Field::verdict>();
    if (verdict->code == 0U) continue;
    if (worker.worker_idx == 0) worker.call.refusal = *verdict;
    return false;
  }
  return true;
}

/// Rows and blocks of a call that was refused: only what dispatch counted needs a reset.
void clear_pool_map(Worker& worker) {
  const flow::PoolMap pool = worker.pool_map();
  for (uint32_t e = 0; e < pool.num_local; ++e) worker.scratch.local_rows[e] = 0;
  pool.build();
}

}  // namespace

void run_worker(Worker& worker) {
  worker.stage_begin = Clock::now();
  worker.enter(Stage::stage_in);
  stage_in(worker);
  worker.enter(Stage::count);
  count(worker);
  worker.enter(Stage::scatter);
  scatter(worker);
  worker.enter(Stage::exchange);
  if (!barrier(worker)) return worker.enter(Stage::exchange);
  const bool is_accepted = all_accepted(worker);
  if (is_accepted) {
    worker.enter(Stage::pull);
    pull(worker);
    if (!run_tiles(worker)) return worker.enter(Stage::gemm2);
  } else {
    clear_pool_map(worker);
  }
  // A rank may combine once every rank has pushed; it may reset once its own workers have taken their last tile.
  worker.enter(Stage::exchange);
  if (!barrier(worker)) return worker.enter(Stage::exchange);
  if (is_accepted) {
    worker.enter(Stage::combine);
    combine(worker);
  }
  worker.enter(Stage::reset);
  reset(worker);
  worker.enter(Stage::exchange);
  (void)barrier(worker);  // its failure stands in the fault record, like that of every wait
  worker.enter(Stage::exchange);
}

}  // namespace megamoe::cpu
