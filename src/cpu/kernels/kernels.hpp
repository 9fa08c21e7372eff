#pragma once

// The CPU's inner loops, one set per instruction set, chosen at run time.
//
// Lanes run over output columns: an output element is summed by one lane, k = 0, 1, 2, ... inside a K segment, and each
// segment's sum is promoted (scaled and added to the element's total) before the next begins. The order of additions
// depends on K and on the weights' block width alone, so every tile size and batch gives the same bits, and so do the
// instruction sets that add one product at a time (scalar, avx2, avx512). The BF16 dot product (avx512_bf16) and tiles
// (amx_bf16) add two or 32 products an instruction in orders of their own: docs/adr/0012.

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

/// How the scales of a packed matrix are kept.
enum class PackedScale : uint8_t {
  none,        ///< bf16
  panel_f32,   ///< one float per segment: a whole panel lies in one scale block
  column_f32,  ///< 16 floats per segment
  column_e8m0  ///< 16 bytes per segment
};

/// Output columns of one panel times the 32-bit words that hold each column's codes.
inline constexpr uint32_t kPanelWordBytes = kPanelCols * 4;

/// Columns of K in one 32-bit word of packed codes.
MM_HOST_DEVICE constexpr uint32_t values_per_word(WeightFormat format) {
  return format == WeightFormat::mxfp4 ? 8 : format == WeightFormat::fp8_block ? 4 : 2;
}

/// How one packed matrix stands in memory: panel by panel; within a panel [k / values_per_word][16] words, within a
/// word
///   fp8:   byte j is the e4m3 code of column k + j
///   mxfp4: byte j holds the e2m1 codes of column k + j (low nibble) and of column k + 4 + j (high nibble)
///   bf16:  half j is column k + j
/// Scales stand apart: [panel][segment], as PackedScale says. A segment is segment_k columns of K: the widest run, at
/// most 128, inside which no scale changes (fp8: gcd(128, block_cols); mxfp4: 32; bf16: 128).
struct PackedLayout {
  WeightFormat format = WeightFormat::bf16;
  PackedScale scale = PackedScale::none;
  uint32_t num_panels = 0;
  uint32_t num_k = 0;      ///< a multiple of 16
  uint32_t segment_k = 0;  ///< divides 128

  /// Bytes of the codes of the first `k` columns of a panel (k a multiple of 16).
  MM_HOST_DEVICE constexpr size_t code_bytes(uint32_t k) const {
    return size_t{k / values_per_word(format)} * kPanelWordBytes;
  }
  MM_HOST_DEVICE constexpr size_t panel_code_bytes() const { return code_bytes(num_k); }
  MM_HOST_DEVICE constexpr uint32_t num_segments() const { return (num_k + segment_k - 1) / segment_k; }
  MM_HOST_DEVICE constexpr size_t segment_scale_bytes() const {
    switch (scale) {
      case PackedScale::none: return 0;
      case PackedScale::panel_f32: return sizeof(float);
      case PackedScale::column_f32: return kPanelCols * sizeof(float);
      case PackedScale::column_e8m0: return kPanelCols;
    }
    return 0;
  }
  MM_HOST_DEVICE constexpr size_t panel_scale_bytes() const { return num_segments() * segment_scale_bytes(); }
  constexpr size_t total_code_bytes() const { return num_panels * panel_code_bytes(); }
  constexpr size_t total_scale_bytes() const { return num_panels * panel_scale_bytes(); }
};

/// Whether any e4m3 code of a matrix is NaN.
enum class NanCodes : uint8_t { none, some };

/// Whether any value or scale of a matrix is so small or large that BF16 arithmetic with scales folded in, which takes
/// subnormal numbers for zero, could lose it: bf16 weights under 2^-100 but not 0, E8M0 scales outside 2^-100..2^100.
enum class FarValues : uint8_t { none, some };

/// What packing found in a matrix.
struct PackedFacts {
  NanCodes nan_codes = NanCodes::none;
  FarValues far_values = FarValues::none;
};

/// Words of which each byte (or half) is one column of K: packed e2m1 codes are two such parts, other words one.
enum class Part : uint32_t { low, high };

/// A packed matrix: a layout and where its bytes are.
struct PackedMatrix {
  PackedLayout layout;
  const std::byte* codes = nullptr;   // [total_code_bytes], 64-byte aligned
  const std::byte* scales = nullptr;  // [total_scale_bytes], 64-byte aligned; null for bf16
  PackedFacts facts = {};
};

/// Powers of two by which a set of kernels expands and prepares, all exact. Codes may become FP32 by moving their bits,
/// which leaves the value over `codes`; activations are multiplied by `activations` when they are prepared, so that
/// products and sums stay in range; `sums` is what is left, multiplied in when sums are promoted: codes = activations *
/// sums.
struct Factors {
  float codes = 1.0F;
  float activations = 1.0F;
  constexpr float sums() const { return codes / activations; }
};
/// e4m3 bits moved to FP32's exponent. A subnormal code becomes a subnormal float.
inline constexpr Factors kMovedE4m3{0x1p120F, 0x1p118F};

/// Up to so many rows, weights are expanded in registers and streamed; beyond, through MultiplyArgs::w.
inline constexpr uint32_t kMaxStreamedRows = 6;
/// Room for expanded weights: one K group of one panel as FP32, or of four panels as BF16 pairs.
inline constexpr uint32_t kExpandedWords = 2 * kGroupK * kPanelCols;
/// How far ahead of a stream of weights the next ones are asked for.
inline constexpr uint32_t kPrefetchBytes = 1024;

/// Panels [first_panel, first_panel + num_panels) by rows, over columns [first_k, first_k + num_k) of K:
/// total[m, n] += promote(sum_k a[m, k] * w[k, n]), segment by segment.
struct MultiplyArgs {
  const PackedMatrix* matrix = nullptr;
  uint32_t first_panel = 0;
  uint32_t num_panels = 0;
  uint32_t first_k = 0;  ///< a multiple of kGroupK
  uint32_t num_k = 0;    ///< a multiple of 16; whole groups, but for the last of the matrix
  uint32_t num_rows = 0;
  const uint32_t* a = nullptr;  // [num_rows, a_stride] words from first_k on, as prepare_row() makes them
  size_t a_stride = 0;
  const float* a_scales = nullptr;  // [num_rows, a_scale_stride]: one per K group, from first_k's on
  size_t a_scale_stride = 0;
  uint32_t* w = nullptr;    // [kExpandedWords], scratch, 64-byte aligned
  float* totals = nullptr;  // [num_rows, total_stride]; columns of panel p at 16 * (p - first_panel)
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

/// The inner loops of one instruction set. All but multiply give the same bits as the scalar ones.
struct Kernels {
  Isa isa = Isa::scalar;
  const char* name = "";  ///< the instruction set, and how it treats subnormal floats if that is not the usual way
  Factors fp8;            ///< of expand and multiply for e4m3 weights
  Factors mxfp4;          ///< and for e2m1 weights
  uint32_t step_k = 1;    ///< columns of K in one word of prepared rows and expanded weights: an FP32, or two BF16

  constexpr Factors factors(WeightFormat format) const {
    return format == WeightFormat::fp8_block ? fp8 : format == WeightFormat::mxfp4 ? mxfp4 : Factors{};
  }
  /// The kernels that multiply `matrix`: these, or narrower ones where these could not keep the numerics contract. By
  /// matrix and never by batch, so that results do not depend on the batch.
  const Kernels& for_matrix(const PackedMatrix& matrix) const {
    return takes == nullptr || takes(matrix) ? *this : narrower->for_matrix(matrix);
  }
  bool (*takes)(const PackedMatrix& matrix) = nullptr;  ///< null: every matrix
  const Kernels* narrower = nullptr;                    ///< null exactly where takes is

  /// Expands `num_k` columns (a multiple of 8) of one panel: w[num_k / step_k, 16] words; values over factors().codes,
  /// NaN codes become NaN. BF16 pairs stand in the order that bf16_pairs.hpp gives.
  void (*expand)(WeightFormat format, const std::byte* codes, uint32_t num_k, uint32_t* w);
  /// REQUIRES for_matrix(*args.matrix) is these kernels.
  void (*multiply)(const MultiplyArgs& args);
  /// e4m3 codes of `num_cols` columns (a multiple of 16) to the words that multiply takes for weights of `format`:
  /// a[num_cols / step_k], times factors().activations; pairs are filled up with zeros to a multiple of 32 columns.
  void (*prepare_row)(WeightFormat format, const uint8_t* codes, uint32_t num_cols, uint32_t* a);
  /// One BF16 row [hidden] to codes [hidden] and scales [ceil(hidden / 128)].
  void (*quantise_row)(const uint16_t* x, uint32_t hidden, flow::ScaleRule rule, uint8_t* codes, float* scales);
  void (*activate_group)(const ActivateArgs& args);
  /// gemm2's epilogue: BF16 partials of `num_cols` columns; with a null bias nothing is added.
  void (*store_partial)(const float* totals, const float* bias, uint32_t num_cols, float router_weight,
                        flow::RouterWeightRule rule, uint16_t* partial);
  /// One token's output row [num_cols]: partials[i] is the i-th valid one, weights[i] its router weight.
  void (*combine_row)(const uint16_t* const* partials, const float* weights, uint32_t num_partials, uint32_t num_cols,
                      flow::RouterWeightRule rule, uint16_t* y);
  /// `num_steps` steps of what multiply does at best, all in registers, flops_per_ceiling_step operations each: its
  /// ceiling. The finite sum it returns keeps them from being left out.
  float (*run_ceiling_steps)(uint64_t num_steps);
  uint32_t flops_per_ceiling_step = 0;
};

/// The kernels of `isa`; `automatic` is the widest that this build has and this CPU (and its OS) can run.
/// Errors: unsupported, naming what the CPU lacks.
Result<const Kernels*> find_kernels(Isa isa);

/// All sets of kernels that this CPU can run, widest first; of one instruction set, the one that is chosen first.
std::span<const Kernels* const> runnable_kernels();

/// Instruction sets that this build has and this CPU can run, widest first.
std::span<const Isa> available_isas();

}  // namespace megamoe::cpu
