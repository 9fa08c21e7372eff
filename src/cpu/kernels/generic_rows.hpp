#pragma once

// The inner loops over rows of activations and partial results; see generic.hpp for what V is and how it is linked.

#include "cpu/kernels/isa.hpp"
#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/index.hpp"
#include "flow/quantise.hpp"
#include "formats/bf16.hpp"

namespace megamoe::cpu {
namespace {

/// Columns that the row-wise loops hold in registers and L1 at a time.
constexpr uint32_t kChunkCols = kActivationGroup;

// ---------------------------------------------------------------- rows of activations

/// One group of `num_cols` <= 128 values to codes; returns the scale.
float quantise_group(const float* __restrict values, uint32_t num_cols, flow::ScaleRule rule,
                     uint8_t* __restrict codes) {
  // Floats that are not negative are ordered like their bits, and an integer maximum may be vectorised in any order.
  // Two loops, because GCC 12 makes a branch of the selects of one.
  uint32_t terms[kActivationGroup];
  for (uint32_t i = 0; i < num_cols; ++i) terms[i] = float_bits(flow::amax_term(values[i]));
  uint32_t amax_bits = 0;
  for (uint32_t i = 0; i < num_cols; ++i) amax_bits = terms[i] > amax_bits ? terms[i] : amax_bits;
  const float scale = flow::group_scale(bits_float(amax_bits), rule);
  const float inverse_scale = rcp_rn(scale);
  for (uint32_t i = 0; i < num_cols; ++i) codes[i] = flow::quantise(values[i], inverse_scale);
  return scale;
}

void quantise_row(const uint16_t* x, uint32_t hidden, flow::ScaleRule rule, uint8_t* codes, float* scales) {
  float values[kActivationGroup];
  for (uint32_t begin = 0; begin < hidden; begin += kActivationGroup) {
    const uint32_t num_cols = flow::min_of(kActivationGroup, hidden - begin);
    const uint16_t* group = x + begin;
    for (uint32_t i = 0; i < num_cols; ++i) values[i] = bf16_to_float(group[i]);
    scales[begin / kActivationGroup] = quantise_group(values, num_cols, rule, codes + begin);
  }
}

/// x + bias, or x itself where there is no bias. `sums` [num_cols] is room for the result.
const float* add_bias(const float* __restrict x, const float* __restrict bias, uint32_t num_cols,
                      float* __restrict sums) {
  if (bias == nullptr) return x;
  for (uint32_t i = 0; i < num_cols; ++i) sums[i] = add_rn(x[i], bias[i]);
  return sums;
}

void activate_group(const ActivateArgs& args) {
  float gate_sums[kActivationGroup];
  float up_sums[kActivationGroup];
  float values[kActivationGroup];
  const flow::ActivationRule rule = args.rule;
  const float* gate = add_bias(args.gate, args.gate_bias, args.num_cols, gate_sums);
  const float* up = add_bias(args.up, args.up_bias, args.num_cols, up_sums);
  for (uint32_t i = 0; i < args.num_cols; ++i) {
    values[i] = mul_rn(flow::activate(gate[i], up[i], rule), args.row_weight);
  }
  *args.scale = quantise_group(values, args.num_cols, args.scale_rule, args.codes);
}

// ---------------------------------------------------------------- rows of partial results

void round_row(const float* __restrict values, uint32_t num_cols, uint16_t* __restrict rounded) {
  for (uint32_t i = 0; i < num_cols; ++i) rounded[i] = bf16_from_float(values[i]);
}

void store_partial(const float* __restrict totals, const float* __restrict bias, uint32_t num_cols, float router_weight,
                   flow::RouterWeightRule rule, uint16_t* __restrict partial) {
  if (bias == nullptr) return round_row(totals, num_cols, partial);
  for (uint32_t i = 0; i < num_cols; ++i) partial[i] = flow::partial_value(totals[i], bias[i], router_weight, rule);
}

void add_partial(const uint16_t* __restrict partial, uint32_t num_cols, float router_weight,
                 flow::RouterWeightRule rule, float* __restrict sums) {
  for (uint32_t i = 0; i < num_cols; ++i) sums[i] = flow::combine_add(sums[i], partial[i], router_weight, rule);
}

void combine_row(const uint16_t* const* partials, const float* weights, uint32_t num_partials, uint32_t num_cols,
                 flow::RouterWeightRule rule, uint16_t* y) {
  float sums[kChunkCols];
  for (uint32_t begin = 0; begin < num_cols; begin += kChunkCols) {
    const uint32_t num_chunk_cols = flow::min_of(kChunkCols, num_cols - begin);
    for (uint32_t i = 0; i < num_chunk_cols; ++i) sums[i] = 0.0F;
    for (uint32_t p = 0; p < num_partials; ++p) {
      const float weight = rule == flow::RouterWeightRule::at_combine ? weights[p] : 1.0F;
      add_partial(partials[p] + begin, num_chunk_cols, weight, rule, sums);
    }
    round_row(sums, num_chunk_cols, y + begin);
  }
}

}  // namespace
}  // namespace megamoe::cpu
