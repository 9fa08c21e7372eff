// gemm1 with its activation, gemm2 with its push home: one tile of the walk at a time.

#include <algorithm>

#include "cpu/wait.hpp"
#include "flow/schedule.hpp"

namespace megamoe::cpu {

using flow::Field;
using flow::Tile;

namespace {

/// The rows that a tile multiplies: e4m3 codes with one scale per row and K group.
struct TileRows {
  const uint8_t* codes = nullptr;  // [num_rows, row_stride], num_k of them valid in each row
  const float* scales = nullptr;   // [num_rows, num_groups]
  uint32_t num_rows = 0;
  uint32_t num_k = 0;
  uint32_t row_stride = 0;
};

/// Panels [first, first + count) of a packed matrix go to columns [0, 16 * count) of the totals.
/// ENSURES totals[m, n] is the promoted sum over all of K.
///
/// Few rows are prepared over all of K, so that each panel's weights are one stream. Of many rows one K group at a time
/// is prepared, so that it stays in the first-level cache for all panels.
void multiply_tile(const Worker& worker, const PackedMatrix& matrix, uint32_t first_panel, uint32_t num_panels,
                   const TileRows& rows) {
  const Kernels& kernels = worker.rules.kernels->for_matrix(matrix);
  const Scratch& scratch = worker.scratch;
  const uint32_t num_groups = flow::ceil_div(rows.num_k, kGroupK);
  const bool streams = rows.num_rows <= kMaxStreamedRows;
  const uint32_t step_k = streams ? rows.num_k : kGroupK;
  const uint32_t a_stride = streams ? streamed_row_stride(rows.num_k) : kGroupK / kernels.step_k;
  MultiplyArgs args{.matrix = &matrix,
                    .first_panel = first_panel,
                    .num_panels = num_panels,
                    .num_rows = rows.num_rows,
                    .a = scratch.a,
                    .a_stride = a_stride,
                    .a_scale_stride = num_groups,
                    .w = scratch.w,
                    .totals = scratch.totals,
                    .total_stride = size_t{num_panels} * kPanelCols};
  std::fill_n(scratch.totals, rows.num_rows * args.total_stride, 0.0F);
  for (uint32_t k = 0; k < rows.num_k; k += step_k) {
    args.first_k = k;
    args.num_k = flow::min_of(step_k, rows.num_k - k);
    args.a_scales = rows.scales + k / kGroupK;
    for (uint32_t m = 0; m < rows.num_rows; ++m) {
      kernels.prepare_row(matrix.layout.format, rows.codes + size_t{m} * rows.row_stride + k, args.num_k,
                          scratch.a + size_t{m} * a_stride);
    }
    kernels.multiply(args);
  }
}

/// Gathers gate or up columns [begin, begin + count) of one row of totals: gate and up panels alternate.
void gather_half(const float* row_totals, uint32_t half, uint32_t begin, uint32_t count, float* values) {
  for (uint32_t c = 0; c < count; c += kPanelCols) {
    const uint32_t panel = (begin + c) / kPanelCols;
    std::copy_n(row_totals + (2U * panel + half) * kPanelCols, std::min(kPanelCols, count - c), values + c);
  }
}

/// gemm1's epilogue: activates and quantises the tile, 128 columns of a row at a time.
void activate_tile(const Worker& worker, const Tile& tile, const PackedExpert& expert, uint32_t first_col,
                   uint32_t num_cols, uint32_t total_stride) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  const uint32_t first_row = num(tile.block) * dims.block_m;
  const bool weighs = worker.rules.weight_rule == flow::RouterWeightRule::before_gemm2;
  float gate[kGroupK];
  float up[kGroupK];
  for (uint32_t m = 0; m < tile.num_rows; ++m) {
    const uint32_t row = first_row + m;
    for (uint32_t c = 0; c < num_cols; c += kGroupK) {
      const uint32_t count = flow::min_of(kGroupK, num_cols - c);
      const float* row_totals = worker.scratch.totals + size_t{m} * total_stride;
      gather_half(row_totals, 0, c, count, gate);
      gather_half(row_totals, 1, c, count, up);
      const uint32_t col = first_col + c;
      worker.rules.kernels->activate_group({.num_cols = count,
                                            .gate = gate,
                                            .up = up,
                                            .gate_bias = expert.gate_bias == nullptr ? nullptr : expert.gate_bias + col,
                                            .up_bias = expert.up_bias == nullptr ? nullptr : expert.up_bias + col,
                                            .row_weight = weighs ? own.get<Field::pool_weight>()[row] : 1.0F,
                                            .rule = worker.rules.activation,
                                            .scale_rule = worker.rules.scale_rule,
                                            .codes = own.row<Field::act>(row) + col,
                                            .scale = own.row<Field::act_scale>(row) + col / kGroupK});
    }
  }
}

GoOn run_gemm1(Worker& worker, const Tile& tile) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  const uint32_t block = num(tile.block);
  // consume(arrived)
  if (!wait_for(worker, &own.get<Field::arrived>()[block], {Field::arrived, block, tile.num_rows}, worker.rules.timeout,
                [&](uint32_t seen) { return seen == tile.num_rows; })) {
    return false;
  }
  const PackedExpert& expert = worker.local.experts[num(tile.expert)];
  const uint32_t first_col = tile.n_block * dims.gemm1_block_n;
  const uint32_t num_cols = flow::min_of(dims.gemm1_block_n, dims.intermediate - first_col);
  const uint32_t num_panels = 2U * flow::ceil_div(num_cols, kPanelCols);
  const uint64_t first_row = uint64_t{block} * dims.block_m;
  multiply_tile(worker, expert.gemm1, 2U * (first_col / kPanelCols), num_panels,
                {own.row<Field::pool_x>(first_row), own.row<Field::pool_x_scale>(first_row), tile.num_rows, dims.hidden,
                 dims.padded_hidden()});
  activate_tile(worker, tile, expert, first_col, num_cols, num_panels * kPanelCols);
  fetch_or_release(&own.get<Field::done_mask>()[block], uint64_t{1} << tile.n_block);  // publish(done_mask)
  return true;
}

/// gemm2's epilogue: each row's columns go to its home rank, to the place of its choice and token.
void push_partials(const Worker& worker, const Tile& tile, const PackedExpert& expert, uint32_t first_col,
                   uint32_t num_cols, uint32_t total_stride) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  for (uint32_t m = 0; m < tile.num_rows; ++m) {
    const uint32_t row = num(tile.block) * dims.block_m + m;
    const flow::RowSource source = own.get<Field::source>()[row];
    uint16_t* home = worker.local.peers.at(flow::Rank{source.rank}).row<Field::partial>(source.choice);
    worker.rules.kernels->store_partial(worker.scratch.totals + size_t{m} * total_stride,
                                        expert.down_bias == nullptr ? nullptr : expert.down_bias + first_col, num_cols,
                                        own.get<Field::pool_weight>()[row], worker.rules.weight_rule,
                                        home + uint64_t{source.token} * dims.hidden + first_col);
  }
}

GoOn run_gemm2(Worker& worker, const Tile& tile) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  const uint32_t block = num(tile.block);
  const uint64_t all_done = flow::full_mask(dims.gemm1_n_blocks());
  // consume(done_mask)
  if (!wait_for(worker, &own.get<Field::done_mask>()[block], {Field::done_mask, block, all_done}, worker.rules.timeout,
                [&](uint64_t seen) { return seen == all_done; })) {
    return false;
  }
  const PackedExpert& expert = worker.local.experts[num(tile.expert)];
  const uint32_t first_col = tile.n_block * dims.gemm2_block_n;
  const uint32_t num_cols = flow::min_of(dims.gemm2_block_n, dims.hidden - first_col);
  const uint32_t num_panels = flow::ceil_div(num_cols, kPanelCols);
  const uint64_t first_row = uint64_t{block} * dims.block_m;
  multiply_tile(worker, expert.gemm2, first_col / kPanelCols, num_panels,
                {own.row<Field::act>(first_row), own.row<Field::act_scale>(first_row), tile.num_rows, dims.intermediate,
                 dims.padded_intermediate()});
  push_partials(worker, tile, expert, first_col, num_cols, num_panels * kPanelCols);
  return true;
}

}  // namespace

GoOn run_tiles(Worker& worker) {
  flow::TileWalk walk(worker.rules.dims, worker.pool_map());
  auto* next_tile = worker.local.own.get<Field::next_tile>();
  Tile tile;
  const auto* abort_flag = worker.local.own.get<Field::abort_flag>();
  while (walk.find(fetch_add_relaxed(next_tile, 1U), tile)) {
    // Whoever holds most of the work may never wait: it must still stop when another gave up.
    if (load_acquire(abort_flag) != 0U) return false;  // consume(abort_flag)
    const bool is_gemm1 = tile.phase == flow::Phase::gemm1;
    worker.enter(is_gemm1 ? Stage::gemm1 : Stage::gemm2);
    if (!(is_gemm1 ? run_gemm1(worker, tile) : run_gemm2(worker, tile))) return false;
  }
  return true;
}

}  // namespace megamoe::cpu
