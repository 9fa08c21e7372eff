// One case of the table on one machine, against the CPU backend's own stages.

#include <fmt/format.h>

#include "check/stages/compare_stages.hpp"
#include "check/stages/stage_machine.hpp"
#include "host/errors.hpp"

namespace megamoe::stages {
namespace {

using flow::Field;

Status differs(const StageCase& stage_case, size_t call, uint32_t rank, const std::string& what) {
  if (what.empty()) return {};
  return {StatusCode::internal, fmt::format("{}, call {}, rank {}: {}", stage_case.name, call, rank, what)};
}

/// Where the CPU has its partials; the kernels push them there.
size_t partial_offset(const flow::Dims& dims, uint32_t choice, uint32_t token) {
  return (size_t{choice} * dims.max_tokens + token) * dims.hidden;
}

/// Stands in for gemm1 and gemm2: each pool row gets the result that its choice of its token is to bring home; masks
/// and the tile counter are used up. Partials of masked choices stay unwritten: combine must not look at them.
Status write_results(const StageCase& stage_case, StageMachine& machine, const CpuStages& cpu,
                     const std::vector<RankData>& data, uint32_t rank) {
  const flow::Dims& dims = stage_case.dims;
  const auto workspace = machine.workspace(rank);
  MM_RETURN_IF_ERROR(workspace.status());
  const flow::PoolMap pool = cpu.pool_map(rank);
  std::vector<uint16_t> results(dims.num_pool_rows() * dims.hidden);
  for (uint32_t e = 0; e < pool.num_local; ++e) {
    const uint32_t first_row = num(pool.first_row(pool.block(flow::LocalExpert{e}, 0)));
    for (uint32_t row = first_row; row < first_row + pool.rows[e]; ++row) {
      const flow::RowSource& source = workspace->get<Field::source>()[row];
      const uint16_t* partial = &data[source.rank].partial[partial_offset(dims, source.choice, source.token)];
      std::copy(partial, partial + dims.hidden, &results[size_t{row} * dims.hidden]);
    }
  }
  MM_RETURN_IF_ERROR(machine.write_results(rank, results));
  for (uint32_t t = 0; t < data[rank].num_tokens; ++t) {
    flow::for_each_choice(&data[rank].ids[size_t{t} * dims.top_k], dims, [&](flow::Choice choice, flow::Expert) {
      const size_t first = partial_offset(dims, num(choice), t);
      std::memcpy(cpu.workspace(rank).get<Field::partial>() + first, &data[rank].partial[first],
                  dims.hidden * sizeof(uint16_t));
    });
  }
  MM_RETURN_IF_ERROR(machine.fill(rank, Field::done_mask, 0xFF));
  return machine.fill(rank, Field::next_tile, 0x11);
}

Status compare_dispatch(const StageCase& stage_case, size_t call, StageMachine& machine, const CpuStages& cpu,
                        const std::vector<RankData>& data) {
  for (uint32_t r = 0; r < stage_case.dims.num_ranks; ++r) {
    const auto workspace = machine.workspace(r);
    MM_RETURN_IF_ERROR(workspace.status());
    MM_RETURN_IF_ERROR(differs(stage_case, call, r, compare_lists(stage_case, *workspace, cpu, data[r], r)));
    MM_RETURN_IF_ERROR(differs(stage_case, call, r, compare_pool(stage_case, *workspace, cpu, r)));
  }
  return {};
}

Status compare_combine(const StageCase& stage_case, size_t call, StageMachine& machine, const CpuStages& cpu) {
  for (uint32_t r = 0; r < stage_case.dims.num_ranks; ++r) {
    const auto y = machine.y(r);
    MM_RETURN_IF_ERROR(y.status());
    if (*y != cpu.y(r)) return differs(stage_case, call, r, "y is not what the CPU has");
    const auto rows = machine.local_expert_rows(r);
    MM_RETURN_IF_ERROR(rows.status());
    if (*rows != cpu.local_expert_rows(r)) return differs(stage_case, call, r, "local_expert_rows are wrong");
    const auto workspace = machine.workspace(r);
    MM_RETURN_IF_ERROR(workspace.status());
    MM_RETURN_IF_ERROR(differs(stage_case, call, r, find_leftovers(stage_case, *workspace)));
  }
  return {};
}

}  // namespace

Status run_case(const StageCase& stage_case, uint64_t seed, StageMachine& machine) {
  CpuStages cpu(stage_case);
  const uint32_t num_ranks = stage_case.dims.num_ranks;
  for (size_t call = 0; call < stage_case.num_tokens.size(); ++call) {
    std::vector<RankData> data;
    for (uint32_t r = 0; r < num_ranks; ++r) {
      data.push_back(make_rank_data(stage_case, stage_case.num_tokens[call][r], seed * 1000 + call * 100 + r));
    }
    MM_RETURN_IF_ERROR(machine.begin_call(data));
    cpu.dispatch(data);
    MM_RETURN_IF_ERROR(machine.run(sm90::Kernel::dispatch, stage_case.num_blocks));
    MM_RETURN_IF_ERROR(compare_dispatch(stage_case, call, machine, cpu, data));
    for (uint32_t r = 0; r < num_ranks; ++r) {
      MM_RETURN_IF_ERROR(write_results(stage_case, machine, cpu, data, r));
    }
    cpu.combine();
    // Not dispatch's number of blocks: each kernel counts its own.
    MM_RETURN_IF_ERROR(machine.run(sm90::Kernel::combine, stage_case.num_blocks + 1));
    MM_RETURN_IF_ERROR(compare_combine(stage_case, call, machine, cpu));
  }
  return {};
}

}  // namespace megamoe::stages
