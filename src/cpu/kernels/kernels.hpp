#pragma once

// The CPU's inner loops, one set per instruction set, chosen at run time.
//
// Lanes run over output columns: an output element is summed by one lane, k = 0, 1, 2, ... inside a K segment, and each
// segment's sum is promoted (scaled and added to the element's total) before the next begins. The order of additions
// depends on K and on the weights' block width alone, so every instruction set, tile size and batch gives the same
// bits.

#include <cstddef>
#include <cstdint>
#include <span>

#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/quantise.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cpu {

/// Output columns of one panel.
inline constexpr uint32_t kPanelCols = 16;
/// Columns of K that are expanded and multiplied at a time: one activation scale.
inline constexpr uint32_t kGroupK = kActivationGroup;

/// How one packed matrix stands in memory.
///
/// codes: panel by panel; within a panel, K groups of kGroupK (the last one shorter); within a group,
///   fp8:   [k][16] e4m3 bytes
///   bf16:  [k][16] 16-bit values
///   mxfp4: [k / 2][16] bytes, low nibble = even k
/// scales: FP32, [panel][segment][16]; none for bf16. A segment is segment_k columns of K: the widest run, at most
/// 128, inside which no scale changes (fp8: gcd(128, block_cols); mxfp4: 32; bf16: 128).
struct PackedLayout {
  WeightFormat format = WeightFormat::bf16;
  uint32_t num_panels = 0;
  uint32_t num_k = 0;      ///< a multiple of 16
  uint32_t segment_k = 0;  ///< divides 128

  /// Bytes of the codes of one panel.
  size_t panel_code_bytes() const;
  /// Bytes of the codes of `k` columns of one panel (k even).
  size_t code_bytes(uint32_t k) const;
  /// ceil(num_k / segment_k); 0 for bf16.
  uint32_t num_segments() const;
  size_t total_code_bytes() const { return num_panels * panel_code_bytes(); }
  size_t total_scale_floats() const { return size_t{num_panels} * num_segments() * kPanelCols; }
};

/// A packed matrix: a layout and where its bytes are.
struct PackedMatrix {
  PackedLayout layout;
  const std::byte* codes = nullptr;  // [total_code_bytes], 64-byte aligned
  const float* scales = nullptr;     // [num_panels, num_segments, 16], 64-byte aligned; null for bf16
};

/// One K group of `multiply`: total[m, n] += promote(sum_k a[m, k] * w[k, n]).
struct MultiplyArgs {
  uint32_t num_rows = 0;
  uint32_t num_k = 0;        ///< columns of this group, 1..128
  uint32_t segment_k = 0;    ///< promotion width
  const float* a = nullptr;  // [num_rows, a_stride], this group's first column; element values, unscaled
  size_t a_stride = 0;
  const float* a_scales = nullptr;  // [num_rows * a_scale_stride]: row m's scale at m * a_scale_stride
  size_t a_scale_stride = 0;
  const float* w = nullptr;         // [num_k, 16], expanded
  const float* w_scales = nullptr;  // [ceil(num_k / segment_k), 16]; null = 1 (bf16)
  float* totals = nullptr;          // [num_rows, total_stride], the panel's 16 columns
  size_t total_stride = 0;
};

/// One row's activate-and-quantise over up to 128 intermediate columns.
struct ActivateArgs {
  uint32_t num_cols = 0;             ///< 1..128
  const float* gate = nullptr;       // [num_cols], gemm1 totals
  const float* up = nullptr;         // [num_cols]
  const float* gate_bias = nullptr;  // [num_cols] or null
  const float* up_bias = nullptr;    // [num_cols] or null
  float row_weight = 1.0F;           ///< multiplies the activated value before it is quantised
  flow::ActivationRule rule;
  flow::ScaleRule scale_rule = flow::ScaleRule::fp32;
  uint8_t* codes = nullptr;  // [num_cols] out
  float* scale = nullptr;    // [1] out
};

/// The inner loops of one instruction set. Every entry gives the same bits as the scalar one.
struct Kernels {
  Isa isa = Isa::scalar;
  /// Expands `num_k` columns (even) of one panel to FP32: w[num_k, 16]. NaN codes become NaN.
  void (*expand)(WeightFormat format, const std::byte* codes, uint32_t num_k, float* w);
  void (*multiply)(const MultiplyArgs& args);
  /// e4m3 codes to FP32.
  void (*decode_row)(const uint8_t* codes, uint32_t num_cols, float* values);
  /// One BF16 row [hidden] to codes [hidden] and scales [ceil(hidden / 128)].
  void (*quantise_row)(const uint16_t* x, uint32_t hidden, flow::ScaleRule rule, uint8_t* codes, float* scales);
  void (*activate_group)(const ActivateArgs& args);
  /// gemm2's epilogue: BF16 partials of `num_cols` columns; with a null bias nothing is added.
  void (*store_partial)(const float* totals, const float* bias, uint32_t num_cols, float router_weight,
                        flow::RouterWeightRule rule, uint16_t* partial);
  /// One token's output row [num_cols]: partials[i] is the i-th valid one, weights[i] its router weight.
  void (*combine_row)(const uint16_t* const* partials, const float* weights, uint32_t num_partials, uint32_t num_cols,
                      flow::RouterWeightRule rule, uint16_t* y);
  /// `num_steps` steps of register-resident multiply-adds, flops_per_fma_step operations each: the ceiling of
  /// `multiply`. The sum it returns keeps them from being left out.
  float (*run_fma_steps)(uint64_t num_steps);
  uint32_t flops_per_fma_step = 0;
};

/// The kernels of `isa`; `automatic` is the widest that this build has and this CPU (and its OS) can run.
/// Errors: unsupported, naming what the CPU lacks.
Result<const Kernels*> find_kernels(Isa isa);

/// Instruction sets that this build has and this CPU can run, widest first.
std::span<const Isa> available_isas();

}  // namespace megamoe::cpu
