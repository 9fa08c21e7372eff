#pragma once

// gemm2's epilogue: rows go home. Each row's columns, as BF16, straight into its home rank's partials, to the place of
// its choice and token, 16 bytes a lane. The barrier before combine makes them visible there.

#include "cuda/sm90/convert_pair.hpp"
#include "cuda/sm90/multiply.hpp"
#include "flow/combine.hpp"

namespace megamoe::sm90 {

/// A gemm2 tile's rows, and where they go.
struct HomeTile {
  flow::Peers peers;
  const flow::RowSource* sources;  // [block_m], from the block's first row on
  const float* weights;            // [block_m] router weights
  const float* bias;               // [256] of the tile's columns, or null
  flow::RouterWeightRule weight_rule;
  uint32_t hidden;
  uint32_t first_col;

  /// Where the tile's columns of a row begin. REQUIRES the row is valid.
  MM_DEVICE uint16_t* home_of(uint32_t row) const {
    const flow::RowSource source = simt::load(sources + row);
    uint16_t* partial = peers.at(flow::Rank{source.rank}).template row<flow::Field::partial>(source.choice);
    return partial + uint64_t{source.token} * hidden + first_col;
  }
  /// Router weights matter only to biases.
  MM_DEVICE float weight_of(uint32_t row, bool is_valid) const {
    return bias == nullptr || !is_valid ? 1.0F : simt::load(weights + row);
  }
  /// `col`: of the tile.
  MM_DEVICE uint32_t value(float total, uint32_t col, float weight) const {
    if (bias == nullptr) return bf16_from_float(total);
    return flow::partial_value(total, simt::load(bias + col), weight, weight_rule);
  }
  /// Two neighbouring columns.
  MM_DEVICE uint32_t pair(float low, float high, uint32_t col, float weight) const {
    if (bias == nullptr) return bf16_pair(low, high);
    return pair_of(value(low, col, weight), value(high, col + 1U, weight));
  }
  /// One column of two neighbouring rows.
  MM_DEVICE uint32_t rows(float low, float high, uint32_t row, uint32_t num_rows, uint32_t col) const {
    if (bias == nullptr) return bf16_pair(low, high);
    return pair_of(value(low, col, weight_of(row, row < num_rows)),
                   value(high, col, weight_of(row + 1U, row + 1U < num_rows)));
  }
  /// Stores columns col .. col + 7 of the tile; hidden is a multiple of 16.
  MM_DEVICE void store(uint16_t* home, uint32_t col, const simt::Vec4& values) const {
    if (first_col + col < hidden) simt::store(reinterpret_cast<simt::Vec4*>(home + col), values);
  }
};

MM_DEVICE HomeTile home_tile(const Arguments& arguments, const MathTile& tile) {
  const flow::Workspace own = arguments.own();
  const uint64_t first_row = uint64_t{tile.block} * arguments.dims.block_m;
  const uint32_t first_col = tile.n_block * kGemm2BlockN;
  const PackedMatrix& matrix = arguments.gemm2;
  const uint64_t first_bias = uint64_t{tile.expert} * matrix.layout.num_rows() + first_col;
  return {arguments.peers(),
          own.get<flow::Field::source>() + first_row,
          own.get<flow::Field::pool_weight>() + first_row,
          matrix.bias == nullptr ? nullptr : matrix.bias + first_bias,
          arguments.weight_rule,
          arguments.dims.hidden,
          first_col};
}

/// A lane's columns of one row, `bit` 0 or 1, as words of two: word i holds columns 8 i + 2 q and 8 i + 2 q + 1.
struct RowWords {
  static constexpr uint32_t kNumWords = kGemm2BlockN / 8U;
  uint32_t words[kNumWords];

  /// Without biases, columns beyond the matrix or NaN: one instruction a word. False: there is a NaN or an infinity.
  MM_DEVICE bool convert(const WideTotals& totals, uint32_t bit) {
    float traces[4] = {};  // 0 while all values are finite; several, so that they do not wait for each other
    MM_UNROLL
    for (uint32_t i = 0; i < kNumWords; ++i) {
      const float* pair = totals[i / 16U] + i % 16U * 4U + bit * 2U;
      words[i] = ptx::bf16x2_from_floats(pair[0], pair[1]);
      traces[i % 4U] = fma_rn(pair[1], 0.0F, fma_rn(pair[0], 0.0F, traces[i % 4U]));
    }
    return add_rn(add_rn(traces[0], traces[1]), add_rn(traces[2], traces[3])) == 0.0F;
  }
  MM_DEVICE void convert_any(const HomeTile& out, const WideTotals& totals, uint32_t bit, uint32_t quad_lane,
                             float weight) {
    MM_UNROLL
    for (uint32_t i = 0; i < kNumWords; ++i) {
      const uint32_t col = i * 8U + quad_lane * 2U;
      const float* pair = totals[i / 16U] + i % 16U * 4U + bit * 2U;
      // Beyond the matrix there is no bias to look at.
      const bool is_real = out.first_col + col < out.hidden;
      words[i] = is_real ? out.pair(pair[0], pair[1], col, weight) : 0U;
    }
  }
};

/// Rows of the pool are M: a lane has columns 2 q and 2 q + 1 of each group of eight, of two rows. Four groups at a
/// time are transposed, so that lane q has all of the q-th.
template <GemmConfig kConfig>
MM_DEVICE void gemm2_epilogue_wide(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                   const WideTotals& totals) {
  const HomeTile out = home_tile(gemm.arguments(), tile);
  const bool is_plain = out.bias == nullptr && out.first_col + kGemm2BlockN <= out.hidden;
  MM_UNROLL
  for (uint32_t bit = 0; bit < 2U; ++bit) {
    const uint32_t row = tile.first_row(me) + me.quad() + 8U * bit;
    const bool is_valid = row < tile.num_rows;
    uint16_t* home = is_valid ? out.home_of(row) : nullptr;
    RowWords row_words;
    // What stands in rows that are not there goes nowhere.
    const bool is_finite = row_words.convert(totals, bit) || !is_valid;
    if (!is_plain || !is_finite) {
      row_words.convert_any(out, totals, bit, me.quad_lane(), out.weight_of(row, is_valid));
    }
    MM_UNROLL
    for (uint32_t first = 0; first < RowWords::kNumWords; first += 4U) {
      uint32_t words[4] = {row_words.words[first], row_words.words[first + 1U], row_words.words[first + 2U],
                           row_words.words[first + 3U]};
      transpose_quad(me.lane, words);
      if (is_valid) out.store(home, (first + me.quad_lane()) * 8U, {words[0], words[1], words[2], words[3]});
    }
  }
}

/// One group of eight rows with weights as M. values[m][b]: column b * 8 + quad of the warp's 16 in m64 m, of row 2 q
/// in the low half and of row 2 q + 1 in the high one. Afterwards the lane has eight columns: of row 2 q + bit 2 of its
/// index, b = bit 3, m = bit 4.
MM_DEVICE simt::Vec4 gather_columns(uint32_t lane, const uint32_t (&values)[2][2]) {
  const bool t = (lane & 4U) != 0U;
  const bool b = (lane & 8U) != 0U;
  const bool m = (lane & 16U) != 0U;
  uint32_t pairs[2][2];  // [m64][b]: two columns of the lane's row
  MM_UNROLL
  for (uint32_t i = 0; i < 2U; ++i) {
    const uint32_t low = pair_of(values[i][0] & 0xFFFFU, values[i][1] & 0xFFFFU);
    const uint32_t high = pair_of(values[i][0] >> 16U, values[i][1] >> 16U);
    const uint32_t kept = t ? high : low;
    const uint32_t received = simt::shfl_xor(simt::kAllLanes, t ? low : high, 4);
    const uint32_t first = t ? received : kept;
    const uint32_t second = t ? kept : received;
    pairs[i][0] = pair_of(first & 0xFFFFU, second & 0xFFFFU);
    pairs[i][1] = pair_of(first >> 16U, second >> 16U);
  }
  uint32_t quads[2][2];  // [m64]: four columns
  MM_UNROLL
  for (uint32_t i = 0; i < 2U; ++i) {
    const uint32_t kept = b ? pairs[i][1] : pairs[i][0];
    const uint32_t received = simt::shfl_xor(simt::kAllLanes, b ? pairs[i][0] : pairs[i][1], 8);
    quads[i][0] = b ? received : kept;
    quads[i][1] = b ? kept : received;
  }
  uint32_t received[2];
  MM_UNROLL
  for (uint32_t i = 0; i < 2U; ++i) {
    received[i] = simt::shfl_xor(simt::kAllLanes, m ? quads[0][i] : quads[1][i], 16);
  }
  if (m) return {received[0], received[1], quads[1][0], quads[1][1]};
  return {quads[0][0], quads[0][1], received[0], received[1]};
}

/// Weights are M.
template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE void gemm2_epilogue_small(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                    const SmallTotals<kN>& totals) {
  const HomeTile out = home_tile(gemm.arguments(), tile);
  if (out.first_col + me.group * kTileRows >= out.hidden) return;
  MM_UNROLL
  for (uint32_t j = 0; j < kN / 8U; ++j) {
    uint32_t values[2][2];
    MM_UNROLL
    for (uint32_t i = 0; i < 4U; ++i) {
      const uint32_t m = i / 2U;
      const uint32_t b = i % 2U;
      const float* rows = totals[m] + j * 4U + b * 2U;
      const uint32_t col = me.group * kTileRows + m * kGroupRows + me.warp * 16U + b * 8U + me.quad();
      values[m][b] = out.rows(rows[0], rows[1], j * 8U + me.quad_lane() * 2U, tile.num_rows, col);
    }
    const simt::Vec4 columns = gather_columns(me.lane, values);
    const uint32_t row = j * 8U + me.quad_lane() * 2U + me.quad() % 2U;
    if (row >= tile.num_rows) continue;
    const uint32_t first =
        me.group * kTileRows + me.quad() / 4U * kGroupRows + me.warp * 16U + me.quad() / 2U % 2U * 8U;
    out.store(out.home_of(row), first, columns);
  }
}

}  // namespace megamoe::sm90
