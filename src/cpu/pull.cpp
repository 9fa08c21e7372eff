// Dispatch, the receiving half: the owner pulls rows from their home ranks into its pool.

#include <cstring>

#include "cpu/atomics.hpp"
#include "cpu/worker.hpp"
#include "flow/count.hpp"
#include "flow/pull.hpp"

namespace megamoe::cpu {

using flow::Field;
using flow::LocalExpert;
using flow::Rank;

namespace {

/// Pool rows that one worker pulls at a time: small enough to share a block among workers, and the arrival counter is
/// bumped once for all of them.
constexpr uint32_t kRowsPerPull = 8;

void pull_row(const Worker& worker, LocalExpert expert, uint32_t place, flow::PoolRow row) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  const uint32_t* counts = own.row<Field::recv_count>(num(expert));
  const Rank first = flow::pull_first_rank(worker.local.rank, dims.num_ranks);
  const flow::PullSource from = flow::pull_source(counts, dims.num_ranks, first, place);
  const uint64_t list = uint64_t{num(expert)} * dims.num_ranks + num(from.rank);
  const flow::Slot slot{own.get<Field::source_slot>()[list * dims.source_list_slots() + from.list_idx]};
  const uint32_t token = num(flow::slot_token(slot, dims));
  const uint32_t choice = num(flow::slot_choice(slot, dims));

  const flow::Workspace there = worker.local.peers.at(from.rank);
  std::memcpy(own.row<Field::pool_x>(num(row)), there.row<Field::x>(token), dims.hidden);
  std::memcpy(own.row<Field::pool_x_scale>(num(row)), there.row<Field::x_scale>(token),
              dims.hidden_groups() * sizeof(float));
  const bool is_routed = choice < dims.top_k;
  own.get<Field::pool_weight>()[num(row)] = is_routed ? there.row<Field::topk_weight>(token)[choice] : 1.0F;
  own.get<Field::source>()[num(row)] = {token, static_cast<uint16_t>(num(from.rank)), static_cast<uint16_t>(choice)};
}

}  // namespace

void pull(Worker& worker) {
  const flow::PoolMap pool = worker.pool_map();
  const auto* totals = worker.local.own.get<Field::recv_total>();
  // Final since the exchange barrier.
  for (uint32_t e = 0; e < pool.num_local; ++e) {
    worker.scratch.local_rows[e] = flow::CountWord{load_acquire(&totals[e])}.num_rows();  // consume(recv_total)
  }
  pool.build();

  auto* arrived = worker.local.own.get<Field::arrived>();
  uint32_t pull_idx = 0;
  for (uint32_t e = 0; e < pool.num_local; ++e) {
    const LocalExpert expert{e};
    for (uint32_t begin = 0; begin < pool.rows[e]; begin += kRowsPerPull, ++pull_idx) {
      if (pull_idx % worker.rules.num_workers != worker.worker_idx) continue;
      const uint32_t end = flow::min_of(begin + kRowsPerPull, pool.rows[e]);
      // kRowsPerPull divides block_m: the rows stand in one block.
      const flow::PoolBlock block = pool.block(expert, begin / pool.block_m);
      const uint32_t first_row = num(pool.first_row(block)) + begin % pool.block_m;
      for (uint32_t place = begin; place < end; ++place) {
        pull_row(worker, expert, place, flow::PoolRow{first_row + place - begin});
      }
      fetch_add(&arrived[num(block)], end - begin);  // publish(arrived)
    }
  }
}

}  // namespace megamoe::cpu
