// What holds the stages together is needed: leave one piece out, and the emulator finds it. And whoever waits for an
// arrival counter may read the rows.

#include "check/stages/cpu_stages.hpp"
#include "emulated_flow.hpp"

namespace megamoe::stages {
namespace {

using namespace sm90;

constexpr uint64_t kNumSeeds = 10;

StageCase two_ranks() {
  for (const StageCase& layer : stage_cases()) {
    if (std::string(layer.name) == "masked_ids") return layer;
  }
  return {};
}

std::vector<RankData> data_of(const StageCase& layer, uint64_t seed) {
  std::vector<RankData> data;
  for (uint32_t r = 0; r < layer.dims.num_ranks; ++r) {
    data.push_back(make_rank_data(layer, layer.num_tokens[0][r], seed * 10 + r));
  }
  return data;
}

/// Runs `kernel` on fresh workspaces, looking for races. A pull that is misled by counts may never end: the steps are
/// limited.
template <class Kernel>
emu::Report run(uint64_t seed, Kernel kernel) {
  const StageCase layer = two_ranks();
  EmulatedFlow kernels(layer,
                       {.seed = seed, .races = emu::Races::find, .stores = emu::Stores::delayed, .max_steps = 400'000});
  EXPECT_TRUE(kernels.begin_call(data_of(layer, seed)).ok());
  return kernels.run(layer.num_blocks, kernel);
}

bool is_race(const emu::Report& report) {
  return report.found(emu::FindingKind::read_write_race) || report.found(emu::FindingKind::unwritten_read);
}

TEST(BrokenFlow, PullWithoutTheExchangeBarrier) {
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report report = run(seed, [](const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
      const Worker worker = make_worker(arguments, worker_idx, num_workers);
      send(worker);
      pull(worker);
    });
    EXPECT_TRUE(is_race(report)) << "seed " << seed << ": " << report.to_string();
  }
}

TEST(BrokenFlow, TheExchangeBarrierOfThisRankOnly) {
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report report = run(seed, [](const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
      const Worker worker = make_worker(arguments, worker_idx, num_workers);
      send(worker);
      const auto stage = static_cast<uint32_t>(Stage::exchange);
      if (sync::grid_barrier(worker.waiter(stage), worker.shared.verdict)) pull(worker);
    });
    EXPECT_TRUE(is_race(report)) << "seed " << seed << ": " << report.to_string();
  }
}

TEST(BrokenFlow, ScatterWithoutPrefix) {
  uint64_t num_found = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const emu::Report report = run(seed, [](const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
      const Worker worker = make_worker(arguments, worker_idx, num_workers);
      count(worker);
      for (uint32_t e = simt::thread_idx(); e < arguments.dims.num_all_experts(); e += simt::num_threads()) {
        simt::store(worker.shared.expert_next + e, 0U);
      }
      simt::sync_threads();
      scatter(worker);
    });
    num_found += report.found(emu::FindingKind::write_write_race) ? 1 : 0;
  }
  EXPECT_EQ(num_found, kNumSeeds);
}

/// A reader of the pool as gemm1 is one: waits for a block's arrivals, then reads its rows, whichever block pulled
/// them.
MM_DEVICE void read_pool(const Worker& worker, const flow::PoolMap& pool) {
  const flow::Dims& dims = worker.arguments.dims;
  const flow::Workspace own = worker.arguments.own();
  const sync::Waiter waiter = worker.waiter(static_cast<uint32_t>(Stage::gemm1));
  for (uint32_t b = worker.worker_idx; b < pool.num_blocks(); b += worker.num_workers) {
    const uint32_t num_rows = pool.info(flow::PoolBlock{b}).num_rows;
    simt::sync_threads();
    sync::GoOn go_on = true;
    if (simt::thread_idx() == 0) {
      const uint32_t* arrived = own.get<Field::arrived>() + b;
      go_on = sync::wait_until<ptx::Scope::gpu>(waiter, arrived, {Field::arrived, b, num_rows},
                                                [&](uint32_t seen) { return seen == num_rows; });
    }
    if (!sync::share_verdict(go_on, worker.shared.verdict)) return;
    const size_t first_row = num(pool.first_row(flow::PoolBlock{b}));
    const uint8_t* tile = own.row<Field::pool_x>(first_row);
    const uint32_t num_pieces = dims.padded_hidden() / kPieceBytes;
    for (uint32_t i = simt::thread_idx(); i < num_rows * num_pieces; i += simt::num_threads()) {
      const uint32_t offset = tile_offset(dims.block_m, i / num_pieces, i % num_pieces);
      (void)simt::load(reinterpret_cast<const simt::Vec4*>(tile + offset));
    }
    for (uint32_t i = simt::thread_idx(); i < num_rows; i += simt::num_threads()) {
      (void)simt::load(own.get<Field::pool_weight>() + first_row + i);
      (void)simt::load(own.get<Field::source>() + first_row + i);
      (void)simt::load(own.row<Field::pool_x_scale>(first_row) + scale_offset(dims.block_m, i, 0));
    }
  }
}

TEST(Arrivals, OrderTheRowsBeforeTheirReader) {
  const StageCase layer = two_ranks();
  for (const uint64_t seed : emu::testing::seeds()) {
    EmulatedFlow kernels(layer, {.seed = seed, .races = emu::Races::find, .stores = emu::Stores::delayed});
    CpuStages cpu(layer);
    const std::vector<RankData> data = data_of(layer, seed);
    ASSERT_TRUE(kernels.begin_call(data).ok());
    cpu.dispatch(data);
    const emu::Report report =
        kernels.run(layer.num_blocks, [&](const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
          const Worker worker = make_worker(arguments, worker_idx, num_workers);
          dispatch_kernel(arguments, worker_idx, num_workers);
          read_pool(worker, cpu.pool_map(num(arguments.rank)));
        });
    ASSERT_TRUE(report.clean()) << report.to_string();
  }
}

}  // namespace
}  // namespace megamoe::stages
