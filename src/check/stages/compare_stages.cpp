#include "check/stages/compare_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "cuda/sm90/tile_layout.hpp"
#include "flow/count.hpp"

namespace megamoe::stages {

using flow::Field;

namespace {

/// Collects what differs; only the first few are worth reading.
class Differences {
 public:
  void add(std::string text) {
    if (num_++ < kShown) text_ += (text_.empty() ? "" : "; ") + std::move(text);
  }
  std::string text() const { return num_ <= kShown ? text_ : fmt::format("{}; and {} more", text_, num_ - kShown); }

 private:
  static constexpr uint32_t kShown = 4;
  uint32_t num_ = 0;
  std::string text_;
};

/// `count` elements of two workspaces' fields, from element `got_first` and `wanted_first` of each.
template <Field kField>
void compare(Differences& differences, const flow::Workspace& got, const flow::Workspace& wanted, size_t got_first,
             size_t wanted_first, size_t count) {
  using Element = flow::Workspace::Element<kField>;
  const Element* a = got.get<kField>() + got_first;
  const Element* b = wanted.get<kField>() + wanted_first;
  if (std::memcmp(a, b, count * sizeof(Element)) == 0) return;
  size_t at = 0;
  while (std::memcmp(a + at, b + at, sizeof(Element)) == 0) ++at;
  differences.add(fmt::format("{}[{}] is not what the CPU has", flow::field_text(kField).name, got_first + at));
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
  for (uint32_t piece = 0; piece < dims.padded_hidden() / sm90::kPieceBytes; ++piece) {
    const uint8_t* from = tile + sm90::tile_offset(dims.block_m, row_in_block, piece);
    codes.insert(codes.end(), from, from + sm90::kPieceBytes);
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

std::string compare_lists(const StageCase& stage_case, const flow::Workspace& got, const CpuStages& cpu,
                          const RankData& data, uint32_t rank) {
  const flow::Dims& dims = stage_case.dims;
  const flow::Workspace wanted = cpu.workspace(rank);
  const size_t num_tokens = data.num_tokens;
  Differences differences;
  compare<Field::x>(differences, got, wanted, 0, 0, num_tokens * dims.hidden);
  compare<Field::x_scale>(differences, got, wanted, 0, 0, num_tokens * dims.hidden_groups());
  compare<Field::topk_weight>(differences, got, wanted, 0, 0, num_tokens * dims.top_k);
  for (uint32_t e = 0; e < dims.num_all_experts(); ++e) {
    const flow::CountWord word{got.get<Field::send_count>()[e]};
    const flow::CountWord wanted_word{wanted.get<Field::send_count>()[e]};
    if (word.num_rows() == wanted_word.num_rows() && word.is_final(stage_case.num_blocks)) continue;
    differences.add(fmt::format("send_count[{}] is {} rows from {} blocks, not {} from {}", e, word.num_rows(),
                                word.num_reported(), wanted_word.num_rows(), stage_case.num_blocks));
  }
  const uint32_t num_local = flow::Placement::of(dims).num_local(flow::Rank{rank});
  compare<Field::recv_total>(differences, got, wanted, 0, 0, num_local);
  compare<Field::recv_count>(differences, got, wanted, 0, 0, size_t{num_local} * dims.num_ranks);
  for (uint32_t list = 0; list < num_local * dims.num_ranks; ++list) {
    const uint32_t count = wanted.get<Field::recv_count>()[list];
    const size_t first = list * dims.source_list_slots();
    if (sorted_list(got, first, count) == sorted_list(wanted, first, count)) continue;
    differences.add(fmt::format("source_slot list {} holds other slots", list));
  }
  return differences.text();
}

std::string compare_pool(const StageCase& stage_case, const flow::Workspace& got, const CpuStages& cpu, uint32_t rank) {
  const flow::Dims& dims = stage_case.dims;
  const flow::Workspace wanted = cpu.workspace(rank);
  const flow::PoolMap pool = cpu.pool_map(rank);
  Differences differences;
  compare<Field::arrived>(differences, got, wanted, 0, 0, dims.num_pool_blocks());
  for (uint32_t e = 0; e < pool.num_local; ++e) {
    const uint32_t first_row = num(pool.first_row(pool.block(flow::LocalExpert{e}, 0)));
    const std::vector<uint32_t> got_rows = rows_by_source(got, first_row, pool.rows[e]);
    const std::vector<uint32_t> wanted_rows = rows_by_source(wanted, first_row, pool.rows[e]);
    for (uint32_t i = 0; i < pool.rows[e]; ++i) {
      const uint32_t a = got_rows[i];
      const uint32_t b = wanted_rows[i];
      compare<Field::source>(differences, got, wanted, a, b, 1);
      compare<Field::pool_weight>(differences, got, wanted, a, b, 1);
      if (tiled_row(got, dims, a) != plain_row(wanted, dims, b)) {
        differences.add(fmt::format("pool_x row {} is not what the CPU has", a));
      }
      for (uint32_t group = 0; group < dims.hidden_groups(); ++group) {
        const uint32_t row_in_block = a % dims.block_m;
        const size_t tile = size_t{a - row_in_block} * dims.hidden_groups();
        compare<Field::pool_x_scale>(differences, got, wanted,
                                     tile + sm90::scale_offset(dims.block_m, row_in_block, group),
                                     size_t{b} * dims.hidden_groups() + group, 1);
      }
    }
  }
  return differences.text();
}

std::string find_leftovers(const StageCase& stage_case, const flow::Workspace& got) {
  Differences differences;
  const auto expect_zero = [&]<Field kField>(size_t count) {
    const auto* elements = got.get<kField>();
    for (size_t i = 0; i < count; ++i) {
      if (elements[i] != 0U) differences.add(fmt::format("{}[{}] is not reset", flow::field_text(kField).name, i));
    }
  };
  expect_zero.template operator()<Field::next_tile>(1);
  expect_zero.template operator()<Field::send_count>(stage_case.dims.num_all_experts());
  expect_zero.template operator()<Field::recv_total>(stage_case.dims.num_local_max());
  expect_zero.template operator()<Field::arrived>(stage_case.dims.num_pool_blocks());
  expect_zero.template operator()<Field::done_mask>(stage_case.dims.num_pool_blocks());
  if (got.get<Field::fault>()->is_set != 0U) differences.add("a fault is recorded");
  return differences.text();
}

}  // namespace megamoe::stages
