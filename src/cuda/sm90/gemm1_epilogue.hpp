#pragma once

// gemm1's epilogue: activate, quantise, store the tile's 128 columns of the intermediate, publish its bit. One function
// for each way in which totals lie in registers; the rules are those of src/flow.

#include <cmath>

#include "cuda/ptx/fence.hpp"
#include "cuda/sm90/convert_pair.hpp"
#include "cuda/sm90/multiply.hpp"
#include "flow/activate.hpp"

namespace megamoe::sm90 {

/// A gemm1 tile's destination and what its values need.
struct ActTile {
  uint8_t* tile;         // act of the pool block: [chunk][block_m, 128], swizzled
  float* scales;         // [block_m], of the tile's columns
  const float* weights;  // [block_m] router weights, or null: they are not multiplied in here
  const float* bias;     // [256] of the tile's packed rows, or null
  uint32_t block_m;
  uint32_t num_cols;  ///< of the tile that the intermediate has; the others become zeros
};

MM_DEVICE ActTile act_tile(const Arguments& arguments, const MathTile& tile) {
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const uint64_t first_row = uint64_t{tile.block} * dims.block_m;
  const bool weighs = arguments.weight_rule == flow::RouterWeightRule::before_gemm2;
  const PackedMatrix& matrix = arguments.gemm1;
  const uint64_t first_bias = uint64_t{tile.expert} * matrix.layout.num_rows() + tile.n_block * kTileHalves * kTileRows;
  return {own.row<flow::Field::act>(first_row),
          own.row<flow::Field::act_scale>(first_row) + scale_offset(dims.block_m, 0, tile.n_block),
          weighs ? own.get<flow::Field::pool_weight>() + first_row : nullptr,
          matrix.bias == nullptr ? nullptr : matrix.bias + first_bias,
          dims.block_m,
          flow::min_of(kGemm1BlockN, dims.intermediate - tile.n_block * kGemm1BlockN)};
}

/// Watches gates and ups on their way: whether all are tame, that is finite, and the sigmoid of each gate's a normal
/// number. `Finite` does half of that for any values.
class Finite {
 public:
  MM_DEVICE void see(float value) { trace_ = fma_rn(value, 0.0F, trace_); }
  MM_DEVICE bool all() const { return trace_ == 0.0F; }

 private:
  float trace_ = 0.0F;  // NaN once a value times zero was
};
class Tame {
 public:
  MM_DEVICE void see(float gate, float up) {
    finite_.see(gate);
    finite_.see(up);
    least_gate_ = fminf(least_gate_, gate);
  }
  MM_DEVICE bool all(const flow::ActivationRule& rule) const {
    return finite_.all() && rule.alpha >= 0.0F && mul_rn(rule.alpha, least_gate_) > flow::kExpMin;
  }

 private:
  Finite finite_;
  float least_gate_ = 0.0F;
};

/// One value of the intermediate without biases, as flow::activate has it. Nothing here branches: the compiler works on
/// many values at a time. REQUIRES gate and up are tame.
MM_DEVICE float activated_tame(const flow::ActivationRule& rule, float gate, float up, float weight) {
  gate = fminf(gate, rule.limit);
  up = fmaxf(fminf(up, rule.limit), -rule.limit);
  const flow::SplitExp e = flow::split_exp(fmaxf(-mul_rn(rule.alpha, gate), flow::kExpMin));
  const float denominator = add_rn(1.0F, mul_rn(e.mantissa, e.power));
  const float glu = mul_rn(gate, ptx::rcp_rn_of_normal(denominator));
  return mul_rn(mul_rn(glu, add_rn(up, rule.up_offset)), weight);
}

/// One value of the intermediate. `row`: of the tile's packed rows, the gate's; `col`: of the tile.
MM_DEVICE float activated(const Arguments& arguments, const ActTile& act, float gate, float up, uint32_t row,
                          uint32_t col, float weight) {
  if (act.bias != nullptr) {
    gate = add_rn(gate, simt::load(act.bias + row));
    up = add_rn(up, simt::load(act.bias + row + kGateUpRows));
  }
  const float value = mul_rn(flow::activate(gate, up, arguments.activation), weight);
  return col < act.num_cols ? value : 0.0F;
}

MM_DEVICE float larger_of(float a, float b) { return b > a ? b : a; }

/// One math warp has stored its part of the tile; the last of the block's publishes the tile. Warps of one group may be
/// several tiles ahead of the other's: each tile counts in a word of its own.
template <GemmConfig kConfig>
MM_DEVICE void publish_act(const GemmWorker<kConfig>& gemm, const MathTile& tile) {
  // Bulk copies read the rows: through the async proxy.
  ptx::fence_proxy_async_global();
  simt::syncwarp();
  if (simt::lane_idx() != 0) return;
  uint32_t* tally = gemm.shared.tally + tile.tile_idx % kTileSlots;
  ptx::fence_acq_rel<ptx::Scope::cta>();
  const uint32_t num_stored = ptx::shared_atom_add(tally, 1U) + 1U;
  if (num_stored != tile.num_warps()) return;
  simt::store(tally, 0U);  // for the tile that is announced in this slot next
  ptx::fence_acq_rel<ptx::Scope::cta>();
  uint64_t* done_mask = gemm.arguments().own().template get<flow::Field::done_mask>() + tile.block;
  ptx::red_or<ptx::Order::release, ptx::Scope::gpu>(done_mask, uint64_t{1} << tile.n_block);  // publish(done_mask)
}

// ---------------------------------------------------------------- rows of the pool are M

/// Codes of one row: piece p of the tile's 128 columns is words[p], of which this lane has columns 2 q and 2 q + 1 in
/// the low half, 8 + 2 q and 9 + 2 q in the high one. Afterwards lane q of the quad stores pieces q and 4 + q.
MM_DEVICE void store_act_row(const ActTile& act, const MathThread& me, uint32_t row, uint32_t n_block, bool is_valid,
                             const uint32_t (&words)[8]) {
  MM_UNROLL
  for (uint32_t first = 0; first < 8U; first += 4U) {
    uint32_t piece[4] = {words[first], words[first + 1U], words[first + 2U], words[first + 3U]};
    transpose_quad(me.lane, piece);
    const simt::Vec4 bytes{pair_of(piece[0] & 0xFFFFU, piece[1] & 0xFFFFU),
                           pair_of(piece[2] & 0xFFFFU, piece[3] & 0xFFFFU), pair_of(piece[0] >> 16U, piece[1] >> 16U),
                           pair_of(piece[2] >> 16U, piece[3] >> 16U)};
    if (!is_valid) continue;
    const uint32_t offset = tile_offset(act.block_m, row, n_block * kChunkPieces + first + me.quad_lane());
    simt::store(reinterpret_cast<simt::Vec4*>(act.tile + offset), bytes);
  }
}

/// One row of a lane's totals, `bit` 0 or 1: accumulators come in fours, two columns of row 0 and two of row 1; those
/// of gate and up alternate. 32 values of the intermediate, which take their gates' place.
struct ActRow {
  static constexpr uint32_t kNumValues = kGemm1BlockN / 4U;
  WideTotals& totals;
  uint32_t bit;

  MM_DEVICE float& gate(uint32_t i) const { return totals[i / 16U][i % 16U / 2U * 8U + bit * 2U + i % 2U]; }
  MM_DEVICE float up(uint32_t i) const { return totals[i / 16U][i % 16U / 2U * 8U + bit * 2U + i % 2U + 4U]; }

  MM_DEVICE bool is_tame(const flow::ActivationRule& rule) const {
    Tame tame[2];  // two, so that one value does not wait for the other
    MM_UNROLL
    for (uint32_t i = 0; i < kNumValues; ++i) tame[i % 2U].see(gate(i), up(i));
    return tame[0].all(rule) && tame[1].all(rule);
  }
  /// False: not all values are finite. `amax`: of the finite ones only where all are.
  MM_DEVICE bool activate_tame(const flow::ActivationRule& rule, float weight, float& amax) const {
    Finite finite[2];
    float largest[2] = {0.0F, 0.0F};
    MM_UNROLL
    for (uint32_t i = 0; i < kNumValues; ++i) {
      const float value = activated_tame(rule, gate(i), up(i), weight);
      finite[i % 2U].see(value);
      largest[i % 2U] = fmaxf(largest[i % 2U], fabsf(value));
      gate(i) = value;
    }
    amax = fmaxf(largest[0], largest[1]);
    return finite[0].all() && finite[1].all();
  }
  MM_DEVICE void activate_any(const Arguments& arguments, const ActTile& act, const MathThread& me,
                              float weight) const {
    MM_UNROLL
    for (uint32_t i = 0; i < kNumValues; ++i) {
      const uint32_t half = i / 16U;
      const uint32_t in_half = i % 16U / 2U * 8U + me.quad_lane() * 2U + i % 2U;
      const uint32_t packed_row = half * kTileRows + in_half / 8U * 16U + in_half % 8U;
      gate(i) = activated(arguments, act, gate(i), up(i), packed_row, half * kTileIntermediate + in_half, weight);
    }
  }
  MM_DEVICE float amax() const {
    float amax = 0.0F;
    MM_UNROLL
    for (uint32_t i = 0; i < kNumValues; ++i) amax = larger_of(amax, flow::amax_term(gate(i)));
    return amax;
  }
  /// Codes as store_act_row wants them. `Quantise`: of two values and the inverse scale.
  template <class Quantise>
  MM_DEVICE void quantise(float inverse_scale, Quantise quantise_two, uint32_t (&words)[8]) const {
    MM_UNROLL
    for (uint32_t piece = 0; piece < 8U; ++piece) {
      words[piece] = pair_of(quantise_two(gate(4U * piece), gate(4U * piece + 1U), inverse_scale),
                             quantise_two(gate(4U * piece + 2U), gate(4U * piece + 3U), inverse_scale));
    }
  }
};

template <GemmConfig kConfig>
MM_DEVICE void activate_wide_row(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                 const ActTile& act, const flow::ActivationRule& rule, const ActRow& values) {
  const Arguments& arguments = gemm.arguments();
  const uint32_t row = tile.first_row(me) + me.quad() + 8U * values.bit;
  const bool is_valid = row < tile.num_rows;
  const float weight = act.weights == nullptr || !is_valid ? 1.0F : simt::load(act.weights + row);
  const bool is_plain = act.bias == nullptr && act.num_cols == kGemm1BlockN;
  float amax = 0.0F;
  bool is_finite = false;
  // What stands in rows that are not there goes nowhere.
  if (is_plain && (!is_valid || values.is_tame(rule))) {
    is_finite = values.activate_tame(rule, weight, amax);
  } else {
    values.activate_any(arguments, act, me, weight);
  }
  if (!is_finite) amax = values.amax();
  amax = larger_of(amax, simt::shfl_xor(simt::kAllLanes, amax, 1));
  amax = larger_of(amax, simt::shfl_xor(simt::kAllLanes, amax, 2));
  const float scale = flow::group_scale(amax, arguments.scale_rule);
  const float inverse_scale = rcp_rn(scale);
  uint32_t words[8];
  if (is_finite) {
    values.quantise(inverse_scale, quantise_finite_pair, words);
  } else {
    values.quantise(inverse_scale, quantise_pair, words);
  }
  store_act_row(act, me, row, tile.n_block, is_valid, words);
  if (is_valid && me.quad_lane() == 0) simt::store(act.scales + row, scale);
}

template <GemmConfig kConfig>
MM_DEVICE void gemm1_epilogue_wide(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                   WideTotals& totals) {
  const ActTile act = act_tile(gemm.arguments(), tile);
  const flow::ActivationRule rule = gemm.arguments().activation;
  activate_wide_row(gemm, me, tile, act, rule, ActRow{totals, 0});
  activate_wide_row(gemm, me, tile, act, rule, ActRow{totals, 1});
  publish_act(gemm, tile);
}

// ---------------------------------------------------------------- weights are M

/// Activates a lane's totals in place: registers 4 j + t hold row 8 j + 2 q + t of the block, one column of the
/// intermediate for each m64. `amax` [kN / 4]: the lane's share of each row's maximum.
template <uint32_t kN>
MM_DEVICE void activate_small(const Arguments& arguments, const ActTile& act, const MathThread& me,
                              const MathTile& tile, SmallTotals<kN>& totals, float (&amax)[kN / 4]) {
  const flow::ActivationRule rule = arguments.activation;
  Tame tame;
  MM_UNROLL
  for (uint32_t i = 0; i < kN / 2U; ++i) {
    const float* gate = totals[i % 2U] + i / 4U * 4U + i / 2U % 2U;
    const bool is_valid = i / 4U * 8U + me.quad_lane() * 2U + i / 2U % 2U < tile.num_rows;
    if (is_valid) tame.see(gate[0], gate[2]);
  }
  const bool is_plain = act.bias == nullptr && act.num_cols == kGemm1BlockN && tame.all(rule);
  MM_UNROLL
  for (uint32_t i = 0; i < kN / 4U; ++i) {
    const uint32_t row = i / 2U * 8U + me.quad_lane() * 2U + i % 2U;
    const bool weighs = act.weights != nullptr && row < tile.num_rows;
    const float weight = weighs ? simt::load(act.weights + row) : 1.0F;
    float* const gates[2] = {totals[0] + i / 2U * 4U + i % 2U, totals[1] + i / 2U * 4U + i % 2U};
    if (is_plain) {
      MM_UNROLL
      for (float* const gate : gates) gate[0] = activated_tame(rule, gate[0], gate[2], weight);
    } else {
      MM_UNROLL
      for (uint32_t m = 0; m < 2U; ++m) {
        const uint32_t packed_row = me.group * kTileRows + m * kGroupRows + me.warp * 16U + me.quad();
        const uint32_t col = me.group * kTileIntermediate + m * 32U + me.warp * 8U + me.quad();
        gates[m][0] = activated(arguments, act, gates[m][0], gates[m][2], packed_row, col, weight);
      }
    }
    amax[i] = larger_of(flow::amax_term(gates[0][0]), flow::amax_term(gates[1][0]));
    MM_UNROLL
    for (uint32_t distance = 4; distance < simt::kWarpLanes; distance *= 2U) {
      amax[i] = larger_of(amax[i], simt::shfl_xor(simt::kAllLanes, amax[i], distance));
    }
  }
}

/// From the maxima of warps to those of rows, over all math warps of the block. Alternate tiles use alternate halves of
/// the memory, so that one barrier a tile is enough: who passes it has read the half of the tile before.
template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE void reduce_amax(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                           float (&amax)[kN / 4]) {
  float* table = gemm.shared.amax + tile.tile_idx % 2U * kMaxSmallRows * kNumMathWarps;
  if (me.quad() == 0) {
    MM_UNROLL
    for (uint32_t i = 0; i < kN / 4U; ++i) {
      const uint32_t row = i / 2U * 8U + me.quad_lane() * 2U + i % 2U;
      simt::store(table + row * kNumMathWarps + me.group * kGroupWarps + me.warp, amax[i]);
    }
  }
  simt::barrier_sync(kMathBarrier, kNumMathThreads);
  MM_UNROLL
  for (uint32_t i = 0; i < kN / 4U; ++i) {
    const uint32_t row = i / 2U * 8U + me.quad_lane() * 2U + i % 2U;
    const auto* vecs = reinterpret_cast<const simt::Vec4*>(table + row * kNumMathWarps);
    MM_UNROLL
    for (uint32_t v = 0; v < kNumMathWarps / 4U; ++v) {
      const simt::Vec4 bits = simt::load(vecs + v);
      amax[i] = larger_of(amax[i], larger_of(larger_of(bits_float(bits.x), bits_float(bits.y)),
                                             larger_of(bits_float(bits.z), bits_float(bits.w))));
    }
  }
}

/// Codes of rows 2 q and 2 q + 1 of one group of eight, one column of each m64, to four columns of one row and m64:
/// codes[m] holds the code of row t in byte t. The lane that stores them: row t = bit 2 of its index, m64 = bit 3.
MM_DEVICE uint32_t gather_codes(uint32_t lane, const uint32_t (&codes)[2]) {
  const uint32_t t = lane / 4U % 2U;
  const uint32_t m = lane / 8U % 2U;
  // Byte m of `kept` and `received`: this lane's row.
  const uint32_t kept = (codes[0] >> (8U * t) & 0xFFU) | (codes[1] >> (8U * t) & 0xFFU) << 8U;
  const uint32_t sent = (codes[0] >> (8U - 8U * t) & 0xFFU) | (codes[1] >> (8U - 8U * t) & 0xFFU) << 8U;
  const uint32_t received = simt::shfl_xor(simt::kAllLanes, sent, 4);
  const uint32_t low = t == 0U ? kept : received;
  const uint32_t high = t == 0U ? received : kept;
  const uint32_t pairs[2] = {(low & 0xFFU) | (high & 0xFFU) << 8U, low >> 8U | (high & 0xFF00U)};
  const uint32_t other = simt::shfl_xor(simt::kAllLanes, m == 0U ? pairs[1] : pairs[0], 8);
  return m == 0U ? pair_of(pairs[0], other) : pair_of(other, pairs[1]);
}

template <uint32_t kN, GemmConfig kConfig>
MM_DEVICE void gemm1_epilogue_small(const GemmWorker<kConfig>& gemm, const MathThread& me, const MathTile& tile,
                                    SmallTotals<kN>& totals) {
  const Arguments& arguments = gemm.arguments();
  const ActTile act = act_tile(arguments, tile);
  float amax[kN / 4];
  activate_small<kN>(arguments, act, me, tile, totals, amax);
  reduce_amax<kN>(gemm, me, tile, amax);
  MM_UNROLL
  for (uint32_t j = 0; j < kN / 8U; ++j) {
    uint32_t codes[2] = {0, 0};
    MM_UNROLL
    for (uint32_t t = 0; t < 2U; ++t) {
      const uint32_t row = j * 8U + me.quad_lane() * 2U + t;
      const float scale = flow::group_scale(amax[2U * j + t], arguments.scale_rule);
      const float inverse_scale = rcp_rn(scale);
      MM_UNROLL
      for (uint32_t m = 0; m < 2U; ++m) {
        codes[m] |= uint32_t{flow::quantise(totals[m][4U * j + t], inverse_scale)} << (8U * t);
      }
      const bool stores = me.group == 0 && me.warp == 0 && me.quad() == 0 && row < tile.num_rows;
      if (stores) simt::store(act.scales + row, scale);
    }
    const uint32_t word = gather_codes(me.lane, codes);
    const uint32_t row = j * 8U + me.quad_lane() * 2U + me.quad() % 2U;
    if (row >= tile.num_rows) continue;
    const uint32_t col = me.group * kTileIntermediate + me.quad() / 2U % 2U * 32U + me.warp * 8U + me.quad() / 4U * 4U;
    const uint32_t piece = tile.n_block * kChunkPieces + col / kPieceBytes;
    const uint32_t offset = tile_offset(act.block_m, row, piece) + col % kPieceBytes;
    simt::store(reinterpret_cast<uint32_t*>(act.tile + offset), word);
  }
  publish_act(gemm, tile);
}

}  // namespace megamoe::sm90
