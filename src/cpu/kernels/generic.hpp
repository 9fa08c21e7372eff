#pragma once

// The inner loops, written once over a vector type. scalar.cpp, avx2.cpp and avx512.cpp each define such a type V in
// their unnamed namespace and build a table from these templates:
//
//   V::kLanes                      floats per vector; divides kPanelCols
//   V::kMaxRows                    rows of the widest multiply block, by the number of registers
//   V::broadcast, load, store      one value to all lanes; unaligned
//   mul(a, b), fma(a, b, c)        one rounding each
//   V::expand_e4m3(codes, w)       16 codes  -> w[16]
//   V::expand_e2m1(codes, w)       16 bytes  -> w[2, 16]: the low nibbles, then the high ones
//   V::expand_bf16(codes, w)       16 values -> w[16]
//
// Everything here has internal linkage and uses nothing of namespace std: an inline function with external linkage that
// is compiled for AVX-512 could be the copy the linker keeps for everybody. tests/cpu_kernels checks the object files.

#include "cpu/kernels/isa.hpp"
#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/quantise.hpp"
#include "formats/bf16.hpp"

namespace megamoe::cpu {
namespace {

/// Columns that the row-wise loops hold in registers and L1 at a time.
constexpr uint32_t kChunkCols = kActivationGroup;

uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// ---------------------------------------------------------------- gemm

template <class V>
void expand(WeightFormat format, const std::byte* codes, uint32_t num_k, float* w) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  switch (format) {
    case WeightFormat::fp8_block:
      for (size_t i = 0; i < size_t{num_k} * kPanelCols; i += kPanelCols) V::expand_e4m3(bytes + i, w + i);
      return;
    case WeightFormat::mxfp4:
      for (size_t i = 0; i < size_t{num_k} * kPanelCols; i += 2 * kPanelCols) V::expand_e2m1(bytes + i / 2, w + i);
      return;
    case WeightFormat::bf16:
      for (size_t i = 0; i < size_t{num_k} * kPanelCols; i += kPanelCols) V::expand_bf16(bytes + 2 * i, w + i);
      return;
  }
}

/// `kRows` rows of args from `first_row` on: their totals of one panel stay in registers for a whole segment.
template <class V, uint32_t kRows>
void multiply_rows(const MultiplyArgs& args, uint32_t first_row) {
  constexpr uint32_t kVecs = kPanelCols / V::kLanes;
  const float* a = args.a + first_row * args.a_stride;
  const float* a_scales = args.a_scales + first_row * args.a_scale_stride;
  float* totals = args.totals + first_row * args.total_stride;
  const float* w_scales = args.w_scales;
  for (uint32_t begin = 0; begin < args.num_k; begin += args.segment_k) {
    const uint32_t end = smaller(begin + args.segment_k, args.num_k);
    V acc[kRows][kVecs];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) acc[r][v] = V::broadcast(0.0F);
    }
    for (uint32_t k = begin; k < end; ++k) {
      V w[kVecs];
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) w[v] = V::load(args.w + size_t{k} * kPanelCols + v * V::kLanes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const V value = V::broadcast(a[r * args.a_stride + k]);
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVecs; ++v) acc[r][v] = fma(value, w[v], acc[r][v]);
      }
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      const V a_scale = V::broadcast(a_scales[r * args.a_scale_stride]);
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) {
        float* total = totals + r * args.total_stride + v * V::kLanes;
        const V scale = w_scales == nullptr ? a_scale : mul(a_scale, V::load(w_scales + v * V::kLanes));
        fma(acc[r][v], scale, V::load(total)).store(total);
      }
    }
    if (w_scales != nullptr) w_scales += kPanelCols;
  }
}

/// multiply_rows with a row count known only at run time. REQUIRES 1 <= num_rows <= kRows.
template <class V, uint32_t kRows>
void multiply_some_rows(const MultiplyArgs& args, uint32_t first_row, uint32_t num_rows) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) return multiply_some_rows<V, kRows - 1>(args, first_row, num_rows);
  }
  multiply_rows<V, kRows>(args, first_row);
}

/// Rows are shared out evenly: 16 rows over blocks of at most 6 go as 6, 5, 5, since a short block waits for its FMAs.
template <class V>
void multiply(const MultiplyArgs& args) {
  uint32_t row = 0;
  for (uint32_t blocks = (args.num_rows + V::kMaxRows - 1) / V::kMaxRows; blocks > 0; --blocks) {
    const uint32_t num_rows = (args.num_rows - row + blocks - 1) / blocks;
    multiply_some_rows<V, V::kMaxRows>(args, row, num_rows);
    row += num_rows;
  }
}

// ---------------------------------------------------------------- rows of activations

template <class V>
void decode_row(const uint8_t* codes, uint32_t num_cols, float* values) {
  uint32_t i = 0;
  for (; i + kPanelCols <= num_cols; i += kPanelCols) V::expand_e4m3(codes + i, values + i);
  for (; i < num_cols; ++i) values[i] = e4m3_to_float(codes[i]);
}

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
    const uint32_t num_cols = smaller(kActivationGroup, hidden - begin);
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
    const uint32_t num_chunk_cols = smaller(kChunkCols, num_cols - begin);
    for (uint32_t i = 0; i < num_chunk_cols; ++i) sums[i] = 0.0F;
    for (uint32_t p = 0; p < num_partials; ++p) {
      const float weight = rule == flow::RouterWeightRule::at_combine ? weights[p] : 1.0F;
      add_partial(partials[p] + begin, num_chunk_cols, weight, rule, sums);
    }
    round_row(sums, num_chunk_cols, y + begin);
  }
}

// ---------------------------------------------------------------- ceiling

/// As many independent sums as hide the latency of a multiply-add at two a cycle.
constexpr uint32_t kFmaChains = 12;

/// Sums converge to 2 whatever the number of steps, so that no step meets infinities or subnormal numbers.
template <class V>
float run_fma_steps(uint64_t num_steps) {
  V sums[kFmaChains];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kFmaChains; ++i) sums[i] = V::broadcast(static_cast<float>(i));
  const V half = V::broadcast(0.5F);
  const V one = V::broadcast(1.0F);
  for (uint64_t step = 0; step < num_steps; ++step) {
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kFmaChains; ++i) sums[i] = fma(sums[i], half, one);
  }
  float total = 0.0F;
  for (uint32_t i = 0; i < kFmaChains; ++i) {
    float lanes[V::kLanes];
    sums[i].store(lanes);
    total += lanes[0];
  }
  return total;
}

template <class V>
constexpr Kernels make_kernels(Isa isa) {
  Kernels kernels;
  kernels.isa = isa;
  kernels.expand = expand<V>;
  kernels.multiply = multiply<V>;
  kernels.decode_row = decode_row<V>;
  kernels.quantise_row = quantise_row;
  kernels.activate_group = activate_group;
  kernels.store_partial = store_partial;
  kernels.combine_row = combine_row;
  kernels.run_fma_steps = run_fma_steps<V>;
  kernels.flops_per_fma_step = 2 * kFmaChains * V::kLanes;
  return kernels;
}

}  // namespace
}  // namespace megamoe::cpu
