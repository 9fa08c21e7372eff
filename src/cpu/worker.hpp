#pragma once

// What a worker of a rank sees: the layer, its rank, its own scratch, and this call.

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernels.hpp"
#include "cpu/scratch.hpp"
#include "host/layer_rules.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cpu {

using Clock = std::chrono::steady_clock;

/// One expert of a rank, packed.
struct PackedExpert {
  PackedMatrix gemm1;
  PackedMatrix gemm2;
  const float* gate_bias = nullptr;  // [I] or null
  const float* up_bias = nullptr;    // [I] or null
  const float* down_bias = nullptr;  // [H] or null
};

/// The layer's rules, and the CPU's own.
struct LayerRules : megamoe::LayerRules {
  const Kernels* kernels = nullptr;
  uint32_t num_workers = 1;  ///< per rank
};

/// One rank of this process.
struct LocalRank {
  flow::Rank rank{};
  flow::Peers peers;
  flow::Workspace own;
  std::vector<PackedExpert> experts;  // [num_local], by LocalExpert
  std::vector<Scratch> scratch;       // [num_workers]
};

/// One rank's part of one call.
struct RankCall {
  const RankInput* input = nullptr;
  const RankOutput* output = nullptr;
  Status verdict;                ///< on this rank's arguments; not ok = take part without tokens
  uint64_t barriers_before = 0;  ///< cross-rank barriers that this workspace has seen
  bool is_first = false;         ///< first call on this workspace: others may still be starting
  /// Out: the first rank's refusal, copied while no rank can begin its next call; code 0 = all accepted.
  flow::CallVerdict refusal;
};

/// Time of one worker in one call.
struct WorkerTimes {
  std::array<double, kNumStages> busy_seconds{};
  double wait_seconds = 0;
};

/// A worker at work. Stages are free functions over it, one file each, in the order of Stage.
struct Worker {
  const LayerRules& rules;
  const LocalRank& local;
  RankCall& call;
  uint32_t worker_idx = 0;
  Scratch scratch;
  uint64_t barrier_idx = 0;  ///< barriers passed on this workspace
  Stage stage = Stage::stage_in;
  Clock::time_point stage_begin{};
  double stage_wait_seconds = 0;  ///< waits inside the current stage
  WorkerTimes times{};

  uint32_t num_tokens() const { return call.verdict.ok() ? call.input->num_tokens : 0U; }
  flow::Range token_share() const { return flow::share(num_tokens(), worker_idx, rules.num_workers); }
  flow::PoolMap pool_map() const {
    return {scratch.local_rows, scratch.first_block, rules.placement.num_local(local.rank), rules.dims.block_m};
  }
  /// Closes the running stage's account and opens the next one's.
  void enter(Stage next);
};

/// True: go on. False: a wait timed out or another rank gave up; the worker must return at once.
using GoOn = bool;

// The stages. REQUIRES each worker of each rank calls them in this order.
void stage_in(Worker& worker);
void count(Worker& worker);
void scatter(Worker& worker);
GoOn barrier(Worker& worker);
void pull(Worker& worker);
GoOn run_tiles(Worker& worker);
void combine(Worker& worker);
void reset(Worker& worker);

/// exchange, before combine, after reset.
inline constexpr uint64_t kBarriersPerCall = 3;

/// One worker's whole call, all stages.
void run_worker(Worker& worker);

}  // namespace megamoe::cpu
