#pragma once

// The inner loops, written once over a type S of steps: what one multiply-add does. Fp32Steps takes one column of K,
// Bf16Pairs two.
//
//   S::Vec                           FP32 vector of sums, one output column per lane
//   S::Words                         packed weights of Vec::kLanes output columns, one 32-bit word each
//   S::Operand                       what a multiply-add takes: kLanes 32-bit words of kStepK columns of K
//   S::kMaxRows                      rows of the widest multiply block, by the number of registers
//   S::kMultipliedPanels             panels of that block
//   S::streamed_panels(rows)         panels that are streamed at a time: enough sums to hide the multiply-add's latency
//   S::kFp8, S::kMxfp4               factors of operands
//   S::part_of, S::operand_of        operands out of packed words
//   S::load, store, broadcast        of operands
//   S::multiply_add(a, w, sum)
//   S::ceiling_step(sum)             a multiply_add for ever; S::kFlops operations
//   S::prepare_row                   a row of e4m3 codes to operands
//
// scalar.cpp, avx2.cpp and vec16.hpp define such a type V for Fp32Steps in their unnamed namespace:
//
//   V::kLanes                        floats per vector; divides kPanelCols
//   V::kMaxRows, V::kMultipliedPanels, V::streamed_panels: see S
//   V::broadcast, load, store        one value to all lanes; unaligned
//   mul(a, b), fma(a, b, c)          one rounding each
//   V::Words, V::load_words          packed weights of kLanes output columns, one 32-bit word each
//   V::kFp8                          factors of e4m3_value
//   V::e4m3_value<j>(words)          value of byte j, over kFp8.codes; NaN codes give any finite value
//   V::with_nan(values)              the same with NaN codes' values made NaN
//   V::kMxfp4                        factors of e2m1_value
//   V::e2m1_part<part>(words)        what e2m1_value takes, of the low or high nibbles
//   V::e2m1_value<j>(part)           value of the nibble in byte j, over kMxfp4.codes
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
constexpr uint32_t kCeilingSums = 12;

template <class S>
float run_ceiling_steps(uint64_t num_steps) {
  using V = typename S::Vec;
  V sums[kCeilingSums];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kCeilingSums; ++i) sums[i] = V::broadcast(static_cast<float>(i));
  for (uint64_t step = 0; step < num_steps; ++step) {
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kCeilingSums; ++i) sums[i] = S::ceiling_step(sums[i]);
  }
  float total = 0.0F;
  for (uint32_t i = 0; i < kCeilingSums; ++i) {
    float lanes[V::kLanes];
    sums[i].store(lanes);
    total += lanes[0];
  }
  return total;
}

template <class S>
constexpr Kernels make_kernels(Isa isa, const char* name) {
  Kernels kernels;
  kernels.isa = isa;
  kernels.name = name;
  kernels.fp8 = S::kFp8;
  kernels.mxfp4 = S::kMxfp4;
  kernels.step_k = S::kStepK;
  kernels.expand = expand<S>;
  kernels.multiply = multiply<S>;
  kernels.prepare_row = S::prepare_row;
  kernels.quantise_row = quantise_row;
  kernels.activate_group = activate_group;
  kernels.store_partial = store_partial;
  kernels.combine_row = combine_row;
  kernels.run_ceiling_steps = run_ceiling_steps<S>;
  kernels.flops_per_ceiling_step = kCeilingSums * S::kFlops;
  return kernels;
}

}  // namespace
}  // namespace megamoe::cpu
