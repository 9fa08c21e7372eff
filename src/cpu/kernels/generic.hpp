#pragma once

// The inner loops, written once over a vector type. scalar.cpp, avx2.cpp and avx512.cpp each define such a type V in
// their unnamed namespace and build a table from these templates:
//
//   V::kLanes                        floats per vector; divides kPanelCols
//   V::kMaxRows                      rows of the widest multiply block, by the number of registers
//   V::kPairedRows                   up to so many rows, two panels are streamed at a time
//   V::broadcast, load, store        one value to all lanes; unaligned
//   mul(a, b), fma(a, b, c)          one rounding each
//   V::Words, V::load_words          packed weights of kLanes output columns, one 32-bit word each
//   V::kFp8                          factors of e4m3_value
//   V::e4m3_value<j>(words)          value of byte j, over kFp8.codes; NaN codes give any finite value
//   V::with_nan(values)              the same with NaN codes' values made NaN
//   V::e4m3_moved<j>(words)          the same over kMovedE4m3.codes, for codes that are not subnormal
//   V::e4m3_of_low_nibbles(words)    e4m3 codes of 4 * the e2m1 low nibbles, in their bytes; ..._high_nibbles
//   V::bf16_half<j>(words)           value of half j
//   V::e8m0_scales(codes)            kLanes scales
//   V::decode_e4m3(codes, factor, x) 16 codes -> x[16], times factor; NaN codes become NaN
//
// Everything here has internal linkage and uses nothing of namespace std: an inline function with external linkage that
// is compiled for AVX-512 could be the copy the linker keeps for everybody. tests/cpu_kernels checks the object files.

#include "cpu/kernels/generic_gemm.hpp"
#include "cpu/kernels/generic_rows.hpp"

namespace megamoe::cpu {
namespace {

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
constexpr Kernels make_kernels(Isa isa, const char* name) {
  Kernels kernels;
  kernels.isa = isa;
  kernels.name = name;
  kernels.fp8 = V::kFp8;
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
