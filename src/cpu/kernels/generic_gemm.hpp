#pragma once

// The gemm loops; see generic.hpp for what V is and how this is linked.
//
// Few rows (decode): weights are streamed, each word expanded in registers and used for all rows at once. Many rows
// (prefill): one K group of a panel is expanded to FP32 once and reused from L1. Both do the same operations in the
// same order for every output element.

#include "cpu/kernels/fp32_steps.hpp"
#include "cpu/kernels/isa.hpp"
#include "flow/index.hpp"

namespace megamoe::cpu {
namespace {

// ---------------------------------------------------------------- weights

/// Columns of K in one part of a word.
constexpr uint32_t values_per_part(WeightFormat format) { return format == WeightFormat::bf16 ? 2 : 4; }

/// Stores one part's steps.
template <class S, WeightFormat kFormat, NanCodes kNans, uint32_t j = 0>
MM_ALWAYS_INLINE void expand_part(typename S::Words part, uint32_t* w) {
  if constexpr (j < values_per_part(kFormat) / S::kStepK) {
    S::store(S::template operand_of<kFormat, kNans, j>(part), w + j * kPanelCols);
    expand_part<S, kFormat, kNans, j + 1>(part, w);
  }
}

/// Asks for the codes kAheadBytes further on, if not 0.
template <class S, WeightFormat kFormat, NanCodes kNans, uint32_t kAheadBytes = 0>
void expand_as(const uint8_t* codes, uint32_t num_k, uint32_t* w) {
  using V = typename S::Vec;
  constexpr uint32_t kPerWord = values_per_word(kFormat);
  constexpr uint32_t kPartSteps = values_per_part(kFormat) / S::kStepK;
  for (uint32_t k = 0; k < num_k; k += kPerWord, codes += kPanelWordBytes) {
    if constexpr (kAheadBytes > 0) __builtin_prefetch(codes + kAheadBytes);
    uint32_t* steps = w + k / S::kStepK * kPanelCols;
    for (uint32_t col = 0; col < kPanelCols; col += V::kLanes) {
      const auto words = V::load_words(codes + 4 * col);
      expand_part<S, kFormat, kNans>(S::template part_of<kFormat, Part::low>(words), steps + col);
      if constexpr (kFormat == WeightFormat::mxfp4) {
        expand_part<S, kFormat, kNans>(S::template part_of<kFormat, Part::high>(words),
                                       steps + kPartSteps * kPanelCols + col);
      }
    }
  }
}

template <class S>
void expand(WeightFormat format, const std::byte* codes, uint32_t num_k, uint32_t* w) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  switch (format) {
    case WeightFormat::fp8_block: return expand_as<S, WeightFormat::fp8_block, NanCodes::some>(bytes, num_k, w);
    case WeightFormat::mxfp4: return expand_as<S, WeightFormat::mxfp4, NanCodes::none>(bytes, num_k, w);
    case WeightFormat::bf16: return expand_as<S, WeightFormat::bf16, NanCodes::none>(bytes, num_k, w);
  }
}

// ---------------------------------------------------------------- promotion

/// Scales of one segment of a panel, for output columns [col, col + kLanes).
template <class V>
V load_scales(PackedScale kind, const uint8_t* scales, uint32_t col) {
  switch (kind) {
    case PackedScale::none: break;
    case PackedScale::panel_f32: return V::broadcast(*reinterpret_cast<const float*>(scales));
    case PackedScale::column_f32: return V::load(reinterpret_cast<const float*>(scales) + col);
    case PackedScale::column_e8m0: return V::e8m0_scales(scales + col);
  }
  return V::broadcast(1.0F);
}

/// total += sum * (a_scale * w_scale), with the factor that codes were expanded without.
template <class S, WeightFormat kFormat, class V>
MM_ALWAYS_INLINE void promote(V sum, V a_scale, V w_scale, float* total) {
  if constexpr (kFormat == WeightFormat::bf16) {
    fma(sum, a_scale, V::load(total)).store(total);
  } else {
    constexpr float kSums = factors_of<S>(kFormat).sums();
    if constexpr (kSums != 1.0F) sum = mul(sum, V::broadcast(kSums));
    fma(sum, mul(a_scale, w_scale), V::load(total)).store(total);
  }
}

// ---------------------------------------------------------------- few rows

/// Sums of kRows rows by kPanels panels.
template <class V, uint32_t kRows, uint32_t kPanels>
struct Sums {
  static constexpr uint32_t kVecs = kPanelCols / V::kLanes;
  V of[kRows][kPanels][kVecs];
};

/// The columns of K of one part of all panels' words. Consecutive multiply-adds go to different sums: a scheduler that
/// sees some 64 operations ahead would otherwise wait for each sum in turn (docs/perf/0001).
template <class S, WeightFormat kFormat, uint32_t kRows, uint32_t kPanels, uint32_t j = 0>
MM_ALWAYS_INLINE void add_part(const typename S::Words (&parts)[kPanels][kPanelCols / S::Vec::kLanes],
                               const uint32_t* a, size_t a_stride, Sums<typename S::Vec, kRows, kPanels>& sums) {
  if constexpr (j < values_per_part(kFormat) / S::kStepK) {
    using V = typename S::Vec;
    typename S::Operand values[kRows];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) values[r] = S::broadcast(a + r * a_stride + j);
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kPanelCols / V::kLanes; ++v) {
        const auto w = S::template operand_of<kFormat, NanCodes::none, j>(parts[p][v]);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) {
          sums.of[r][p][v] = S::multiply_add(values[r], w, sums.of[r][p][v]);
        }
      }
    }
    add_part<S, kFormat, kRows, kPanels, j + 1>(parts, a, a_stride, sums);
  }
}

/// Loads one word of every output column of all panels and takes its `kPart`.
template <class S, WeightFormat kFormat, Part kPart, uint32_t kPanels>
MM_ALWAYS_INLINE void load_parts(const uint8_t* codes, size_t panel_code_bytes,
                                 typename S::Words (&parts)[kPanels][kPanelCols / S::Vec::kLanes]) {
  using V = typename S::Vec;
#pragma GCC unroll 16
  for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kPanelCols / V::kLanes; ++v) {
      parts[p][v] =
          S::template part_of<kFormat, kPart>(V::load_words(codes + p * panel_code_bytes + 4 * v * V::kLanes));
    }
  }
}

/// `kRows` rows by `kPanels` panels from `panel` on, over all of the call's K.
template <class S, WeightFormat kFormat, uint32_t kRows, uint32_t kPanels>
void stream_panels(const MultiplyArgs& args, uint32_t panel) {
  using V = typename S::Vec;
  constexpr uint32_t kVecs = kPanelCols / V::kLanes;
  constexpr uint32_t kPerWord = values_per_word(kFormat);
  const PackedLayout& layout = args.matrix->layout;
  const size_t panel_code_bytes = layout.panel_code_bytes();
  const size_t panel_scale_bytes = layout.panel_scale_bytes();
  const size_t segment_scale_bytes = layout.segment_scale_bytes();
  const uint32_t first_panel = args.first_panel + panel;
  const auto* codes = reinterpret_cast<const uint8_t*>(args.matrix->codes) + first_panel * panel_code_bytes +
                      layout.code_bytes(args.first_k);
  const auto* scales = reinterpret_cast<const uint8_t*>(args.matrix->scales) + first_panel * panel_scale_bytes +
                       args.first_k / layout.segment_k * segment_scale_bytes;
  float* totals = args.totals + size_t{panel} * kPanelCols;
  for (uint32_t begin = 0; begin < args.num_k; begin += layout.segment_k) {
    const uint32_t end = flow::min_of(begin + layout.segment_k, args.num_k);
    Sums<V, kRows, kPanels> sums;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVecs; ++v) sums.of[r][p][v] = V::broadcast(0.0F);
      }
    }
    for (uint32_t k = begin; k < end; k += kPerWord, codes += kPanelWordBytes) {
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) __builtin_prefetch(codes + p * panel_code_bytes + kPrefetchBytes);
      typename S::Words parts[kPanels][kVecs];
      const uint32_t* a = args.a + k / S::kStepK;
      load_parts<S, kFormat, Part::low, kPanels>(codes, panel_code_bytes, parts);
      add_part<S, kFormat, kRows, kPanels>(parts, a, args.a_stride, sums);
      if constexpr (kFormat == WeightFormat::mxfp4) {
        load_parts<S, kFormat, Part::high, kPanels>(codes, panel_code_bytes, parts);
        add_part<S, kFormat, kRows, kPanels>(parts, a + values_per_part(kFormat) / S::kStepK, args.a_stride, sums);
      }
    }
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) {
        const V w_scale = load_scales<V>(layout.scale, scales + p * panel_scale_bytes, v * V::kLanes);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) {
          const V a_scale = V::broadcast(args.a_scales[r * args.a_scale_stride + begin / kGroupK]);
          promote<S, kFormat>(sums.of[r][p][v], a_scale, w_scale,
                              totals + r * args.total_stride + p * kPanelCols + v * V::kLanes);
        }
      }
    }
    scales += segment_scale_bytes;
  }
}

/// All panels of the call for a row count known at run time. REQUIRES 1 <= num_rows <= kRows.
template <class S, WeightFormat kFormat, uint32_t kRows>
void stream_rows(const MultiplyArgs& args) {
  if constexpr (kRows > 1) {
    if (args.num_rows < kRows) return stream_rows<S, kFormat, kRows - 1>(args);
  }
  constexpr uint32_t kPanels = S::streamed_panels(kRows);
  uint32_t panel = 0;
  for (; panel + kPanels <= args.num_panels; panel += kPanels) stream_panels<S, kFormat, kRows, kPanels>(args, panel);
  for (; panel < args.num_panels; ++panel) stream_panels<S, kFormat, kRows, 1>(args, panel);
}

// ---------------------------------------------------------------- many rows

/// Words from one panel's expanded K group to the next's.
template <class S>
constexpr uint32_t kExpandedStride = kGroupK / S::kStepK* kPanelCols;

/// Steps of the multiply loop between two requests for the codes that come next.
constexpr uint32_t kRequestSteps = 64;

/// Asks memory for the codes that are expanded next, some lines at a time while the present ones are multiplied: asked
/// for all at once they would fill the CPU's miss buffers, and expanding would wait for memory (docs/perf/0006). To the
/// second-level cache, since operands fill the first.
struct NextCodes {
  const uint8_t* at = nullptr;     // of the first panel
  size_t panel_stride = 0;         // from one panel's codes to the next's
  uint32_t lines_per_panel = 0;    // of a K group
  uint32_t lines_per_request = 0;  // of each panel
  uint32_t line = 0;               // the next one

  template <uint32_t kPanels>
  MM_ALWAYS_INLINE void request() {
    constexpr int kToRead = 0;
    constexpr int kSecondLevel = 2;
    const uint32_t end = flow::min_of(line + lines_per_request, lines_per_panel);
    for (; line < end; ++line) {
      for (uint32_t p = 0; p < kPanels; ++p) {
        __builtin_prefetch(at + p * panel_stride + line * kPanelWordBytes, kToRead, kSecondLevel);
      }
    }
  }
};

/// One K group of neighbouring panels, expanded.
struct ExpandedGroup {
  const uint32_t* w = nullptr;      // [panels][kGroupK / kStepK, 16]
  const uint8_t* scales = nullptr;  // of the first panel's first segment in the group
  const uint32_t* a = nullptr;      // [num_rows, a_stride], of the group's first column
  const float* a_scales = nullptr;  // [num_rows * a_scale_stride]
  float* totals = nullptr;          // [num_rows, total_stride], of the first panel's first column
  uint32_t num_k = 0;
};

/// `kRows` rows from `first_row` on: their sums of kPanels panels stay in registers for a whole segment.
template <class S, WeightFormat kFormat, uint32_t kPanels, uint32_t kRows>
void multiply_rows(const MultiplyArgs& args, const ExpandedGroup& group, uint32_t first_row, NextCodes& next_codes) {
  using V = typename S::Vec;
  constexpr uint32_t kVecs = kPanelCols / V::kLanes;
  const PackedLayout& layout = args.matrix->layout;
  const size_t panel_scale_bytes = layout.panel_scale_bytes();
  const uint32_t* a = group.a + first_row * args.a_stride;
  const float* a_scales = group.a_scales + first_row * args.a_scale_stride;
  float* totals = group.totals + first_row * args.total_stride;
  const uint8_t* scales = group.scales;
  for (uint32_t begin = 0; begin < group.num_k; begin += layout.segment_k) {
    const uint32_t end = flow::min_of(begin + layout.segment_k, group.num_k);
    V sums[kRows][kPanels * kVecs];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kPanels * kVecs; ++v) sums[r][v] = V::broadcast(0.0F);
    }
    for (uint32_t step = begin / S::kStepK; step < end / S::kStepK;) {
      next_codes.request<kPanels>();
      const uint32_t chunk_end = flow::min_of(step + kRequestSteps, end / S::kStepK);
      for (; step < chunk_end; ++step) {
        typename S::Operand w[kPanels * kVecs];
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kPanels * kVecs; ++v) {
          w[v] = S::load(group.w + v / kVecs * kExpandedStride<S> + size_t{step} * kPanelCols + v % kVecs * V::kLanes);
        }
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) {
          const auto value = S::broadcast(a + r * args.a_stride + step);
#pragma GCC unroll 16
          for (uint32_t v = 0; v < kPanels * kVecs; ++v) sums[r][v] = S::multiply_add(value, w[v], sums[r][v]);
        }
      }
    }
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kPanels * kVecs; ++v) {
      const V w_scale = load_scales<V>(layout.scale, scales + v / kVecs * panel_scale_bytes, v % kVecs * V::kLanes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const V a_scale = V::broadcast(a_scales[r * args.a_scale_stride]);
        promote<S, kFormat>(sums[r][v], a_scale, w_scale, totals + r * args.total_stride + v * V::kLanes);
      }
    }
    scales += layout.segment_scale_bytes();
  }
}

/// multiply_rows with a row count known only at run time. REQUIRES 1 <= num_rows <= kRows.
template <class S, WeightFormat kFormat, uint32_t kPanels, uint32_t kRows>
void multiply_some_rows(const MultiplyArgs& args, const ExpandedGroup& group, uint32_t first_row, uint32_t num_rows,
                        NextCodes& next_codes) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) {
      return multiply_some_rows<S, kFormat, kPanels, kRows - 1>(args, group, first_row, num_rows, next_codes);
    }
  }
  multiply_rows<S, kFormat, kPanels, kRows>(args, group, first_row, next_codes);
}

/// Rows are shared out evenly: 16 rows over blocks of at most 6 go as 6, 5, 5, since a short block waits for its FMAs.
template <class S, WeightFormat kFormat, uint32_t kPanels>
void multiply_group(const MultiplyArgs& args, const ExpandedGroup& group, const uint8_t* next) {
  const uint32_t num_blocks = flow::ceil_div(args.num_rows, S::kMaxRows);
  const uint32_t request_k = flow::min_of(args.matrix->layout.segment_k, kRequestSteps * S::kStepK);
  const uint32_t num_requests = num_blocks * flow::ceil_div(group.num_k, request_k);
  const uint32_t num_lines = group.num_k / values_per_word(kFormat);
  NextCodes next_codes{.at = next,
                       .panel_stride = args.matrix->layout.panel_code_bytes(),
                       .lines_per_panel = num_lines,
                       .lines_per_request = flow::ceil_div(num_lines, num_requests)};
  uint32_t row = 0;
  for (uint32_t blocks = num_blocks; blocks > 0; --blocks) {
    const uint32_t num_rows = (args.num_rows - row + blocks - 1) / blocks;
    multiply_some_rows<S, kFormat, kPanels, S::kMaxRows>(args, group, row, num_rows, next_codes);
    row += num_rows;
  }
}

/// Columns [k, k + num_k) of K, one group, of kPanels panels from `panel` on.
template <class S, WeightFormat kFormat, uint32_t kPanels>
void expand_and_multiply_panels(const MultiplyArgs& args, uint32_t panel, uint32_t k) {
  const PackedLayout& layout = args.matrix->layout;
  const uint32_t num_k = flow::min_of(kGroupK, args.num_k - k);
  const size_t panel_idx = args.first_panel + panel;
  const auto* codes = reinterpret_cast<const uint8_t*>(args.matrix->codes) + panel_idx * layout.panel_code_bytes() +
                      layout.code_bytes(args.first_k + k);
  // What comes next is the same group kPanels panels on, and after the last panel the first's next group. Beyond the
  // last group there is another panel's beginning, or nothing: asking for it does no harm.
  const auto* next = panel + 2 * kPanels <= args.num_panels
                         ? codes + kPanels * layout.panel_code_bytes()
                         : codes - panel * layout.panel_code_bytes() + layout.code_bytes(kGroupK);
#pragma GCC unroll 16
  for (uint32_t p = 0; p < kPanels; ++p) {
    uint32_t* w = args.w + p * kExpandedStride<S>;
    const size_t offset = p * layout.panel_code_bytes();
    if (args.matrix->facts.nan_codes == NanCodes::some) {
      expand_as<S, kFormat, NanCodes::some>(codes + offset, num_k, w);
    } else {
      expand_as<S, kFormat, NanCodes::none>(codes + offset, num_k, w);
    }
  }
  const auto* scales = reinterpret_cast<const uint8_t*>(args.matrix->scales) + panel_idx * layout.panel_scale_bytes() +
                       (args.first_k + k) / layout.segment_k * layout.segment_scale_bytes();
  multiply_group<S, kFormat, kPanels>(args,
                                      {.w = args.w,
                                       .scales = scales,
                                       .a = args.a + k / S::kStepK,
                                       .a_scales = args.a_scales + k / kGroupK,
                                       .totals = args.totals + size_t{panel} * kPanelCols,
                                       .num_k = num_k},
                                      next);
}

template <class S, WeightFormat kFormat>
void expand_and_multiply(const MultiplyArgs& args) {
  constexpr uint32_t kPanels = S::kMultipliedPanels;
  static_assert(kPanels * kExpandedStride<S> <= kExpandedWords);
  for (uint32_t k = 0; k < args.num_k; k += kGroupK) {
    uint32_t panel = 0;
    for (; panel + kPanels <= args.num_panels; panel += kPanels) {
      expand_and_multiply_panels<S, kFormat, kPanels>(args, panel, k);
    }
    for (; panel < args.num_panels; ++panel) expand_and_multiply_panels<S, kFormat, 1>(args, panel, k);
  }
}

// ---------------------------------------------------------------- all

template <class S, WeightFormat kFormat>
void multiply_as(const MultiplyArgs& args) {
  // Streaming expands whole words and looks for no NaN.
  const bool streams = args.num_rows <= kMaxStreamedRows && args.matrix->facts.nan_codes == NanCodes::none &&
                       args.matrix->layout.segment_k % values_per_word(kFormat) == 0;
  if (args.num_rows == 0) return;
  if (streams) return stream_rows<S, kFormat, kMaxStreamedRows>(args);
  expand_and_multiply<S, kFormat>(args);
}

template <class S>
void multiply(const MultiplyArgs& args) {
  switch (args.matrix->layout.format) {
    case WeightFormat::fp8_block: return multiply_as<S, WeightFormat::fp8_block>(args);
    case WeightFormat::mxfp4: return multiply_as<S, WeightFormat::mxfp4>(args);
    case WeightFormat::bf16: return multiply_as<S, WeightFormat::bf16>(args);
  }
}

}  // namespace
}  // namespace megamoe::cpu
