#include "flow_compare.hpp"

#include <numeric>
#include <tuple>

#include "flow/count.hpp"

namespace megamoe::sm90::testing {

using flow::Field;

namespace {

/// `count` elements of two workspaces' fields, from element `first` of each.
template <Field kField>
void expect_same(const flow::Workspace& got, const flow::Workspace& wanted, size_t got_first, size_t wanted_first,
                 size_t count) {
  using Element = flow::Workspace::Element<kField>;
  const Element* a = got.get<kField>() + got_first;
  const Element* b = wanted.get<kField>() + wanted_first;
  EXPECT_EQ(std::memcmp(a, b, count * sizeof(Element)), 0) << flow::field_text(kField).name << " " << got_first;
}

std::vector<uint32_t> sorted_list(const flow::Workspace& workspace, size_t first, uint32_t count) {
  const uint32_t* slots = workspace.get<Field::source_slot>() + first;
  std::vector<uint32_t> list(slots, slots + count);
  std::sort(list.begin(), list.end());
  return list;
}

/// Pool rows of one expert's run in the order of their sources.
std::vector<uint32_t> rows_by_source(const flow::Workspace& workspace, uint32_t first_row, uint32_t num_rows) {
  std::vector<uint32_t> rows(num_rows);
  std::iota(rows.begin(), rows.end(), first_row);
  const flow::RowSource* sources = workspace.get<Field::source>();
  std::sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(sources[a].rank, sources[a].token, sources[a].choice) <
           std::tie(sources[b].rank, sources[b].token, sources[b].choice);
  });
  return rows;
}

/// A row of the kernels' pool, out of its block's tile: the codes, and zeros up to whole chunks.
std::vector<uint8_t> tiled_row(const flow::Workspace& workspace, const flow::Dims& dims, uint32_t row) {
  const uint32_t row_in_block = row % dims.block_m;
  const uint8_t* tile = workspace.row<Field::pool_x>(row - row_in_block);
  std::vector<uint8_t> codes;
  for (uint32_t piece = 0; piece < dims.padded_hidden() / kPieceBytes; ++piece) {
    const uint8_t* from = tile + tile_offset(dims.block_m, row_in_block, piece);
    codes.insert(codes.end(), from, from + kPieceBytes);
  }
  return codes;
}

/// The same row as the CPU backend has it: plain.
std::vector<uint8_t> plain_row(const flow::Workspace& workspace, const flow::Dims& dims, uint32_t row) {
  const uint8_t* from = workspace.row<Field::pool_x>(row);
  std::vector<uint8_t> codes(from, from + dims.hidden);
  codes.resize(dims.padded_hidden());
  return codes;
}

}  // namespace

void expect_same_lists(const FlowCase& layer, const EmulatedFlow& kernels, const CpuFlow& cpu,
                       const std::vector<RankData>& data, uint32_t rank) {
  const flow::Dims& dims = layer.dims;
  const flow::Workspace got = kernels.workspace(rank);
  const flow::Workspace wanted = cpu.workspace(rank);
  const size_t num_tokens = data[rank].num_tokens;
  expect_same<Field::x>(got, wanted, 0, 0, num_tokens * dims.hidden);
  expect_same<Field::x_scale>(got, wanted, 0, 0, num_tokens * dims.hidden_groups());
  expect_same<Field::topk_weight>(got, wanted, 0, 0, num_tokens * dims.top_k);
  for (uint32_t e = 0; e < dims.num_all_experts(); ++e) {
    const flow::CountWord word{got.get<Field::send_count>()[e]};
    EXPECT_EQ(word.num_rows(), flow::CountWord{wanted.get<Field::send_count>()[e]}.num_rows());
    EXPECT_TRUE(word.is_final(layer.num_blocks));
  }
  const uint32_t num_local = flow::Placement::of(dims).num_local(flow::Rank{rank});
  expect_same<Field::recv_total>(got, wanted, 0, 0, num_local);
  expect_same<Field::recv_count>(got, wanted, 0, 0, size_t{num_local} * dims.num_ranks);
  for (uint32_t list = 0; list < num_local * dims.num_ranks; ++list) {
    const uint32_t count = wanted.get<Field::recv_count>()[list];
    const size_t first = list * dims.source_list_slots();
    EXPECT_EQ(sorted_list(got, first, count), sorted_list(wanted, first, count));
  }
}

void expect_same_pool(const FlowCase& layer, const EmulatedFlow& kernels, const CpuFlow& cpu, uint32_t rank) {
  const flow::Dims& dims = layer.dims;
  const flow::Workspace got = kernels.workspace(rank);
  const flow::Workspace wanted = cpu.workspace(rank);
  const flow::PoolMap pool = cpu.pool_map(rank);
  expect_same<Field::arrived>(got, wanted, 0, 0, dims.num_pool_blocks());
  for (uint32_t e = 0; e < pool.num_local; ++e) {
    const uint32_t first_row = num(pool.first_row(pool.block(flow::LocalExpert{e}, 0)));
    const std::vector<uint32_t> got_rows = rows_by_source(got, first_row, pool.rows[e]);
    const std::vector<uint32_t> wanted_rows = rows_by_source(wanted, first_row, pool.rows[e]);
    for (uint32_t i = 0; i < pool.rows[e]; ++i) {
      const uint32_t a = got_rows[i];
      const uint32_t b = wanted_rows[i];
      expect_same<Field::source>(got, wanted, a, b, 1);
      expect_same<Field::pool_weight>(got, wanted, a, b, 1);
      EXPECT_EQ(tiled_row(got, dims, a), plain_row(wanted, dims, b));
      const uint32_t num_groups = dims.hidden_groups();
      expect_same<Field::pool_x_scale>(got, wanted, size_t{a} * num_groups, size_t{b} * num_groups, num_groups);
    }
  }
}

void expect_reset(const FlowCase& layer, const EmulatedFlow& kernels, uint32_t rank) {
  const flow::Workspace workspace = kernels.workspace(rank);
  const auto expect_zero = [&]<Field kField>(size_t count) {
    const auto* elements = workspace.get<kField>();
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(elements[i], 0U) << flow::field_text(kField).name << " " << i;
  };
  expect_zero.template operator()<Field::next_tile>(1);
  expect_zero.template operator()<Field::send_count>(layer.dims.num_all_experts());
  expect_zero.template operator()<Field::recv_total>(layer.dims.num_local_max());
  expect_zero.template operator()<Field::arrived>(layer.dims.num_pool_blocks());
  expect_zero.template operator()<Field::done_mask>(layer.dims.num_pool_blocks());
}

}  // namespace megamoe::sm90::testing
