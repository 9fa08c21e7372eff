#pragma once

// The gemm loops; see generic.hpp for what V is and how this is linked.
//
// Few rows (decode): weights are streamed, each word expanded in registers and used for all rows at once. Many rows
// (prefill): one K group of a panel is expanded to FP32 once and reused from L1. Both do the same operations in the
// same order for every output element.

#include "cpu/kernels/isa.hpp"
#include "flow/index.hpp"

namespace megamoe::cpu {
namespace {

// For templates whose arguments are compile-time steps of one loop.
#define MM_ALWAYS_INLINE __attribute__((always_inline)) inline

// ---------------------------------------------------------------- weights

/// Words of which each byte (or half) is one column of K: packed e2m1 codes give two such words, others are one.
enum class Part : uint32_t { low, high };

template <class V, WeightFormat kFormat, Part kPart>
MM_ALWAYS_INLINE typename V::Words part_of(typename V::Words words) {
  if constexpr (kFormat != WeightFormat::mxfp4) {
    return words;
  } else if constexpr (kPart == Part::low) {
    return V::e4m3_of_low_nibbles(words);
  } else {
    return V::e4m3_of_high_nibbles(words);
  }
}

/// Columns of K in one part of a word.
constexpr uint32_t values_per_part(WeightFormat format) { return format == WeightFormat::bf16 ? 2 : 4; }

template <class V, WeightFormat kFormat, uint32_t j>
MM_ALWAYS_INLINE V value_of(typename V::Words part) {
  if constexpr (kFormat == WeightFormat::bf16) {
    return V::template bf16_half<j>(part);
  } else if constexpr (kFormat == WeightFormat::fp8_block) {
    return V::template e4m3_value<j>(part);
  } else {
    return V::template e4m3_moved<j>(part);
  }
}

/// Stores one part's columns of K; kNans says whether e4m3 codes may be NaN.
template <class V, WeightFormat kFormat, NanCodes kNans, uint32_t j = 0>
MM_ALWAYS_INLINE void expand_part(typename V::Words part, float* w) {
  if constexpr (j < values_per_part(kFormat)) {
    V values = value_of<V, kFormat, j>(part);
    if constexpr (kFormat == WeightFormat::fp8_block && kNans == NanCodes::some) values = V::with_nan(values);
    values.store(w + j * kPanelCols);
    expand_part<V, kFormat, kNans, j + 1>(part, w);
  }
}

/// Asks for `next` on the way, line by line: the codes that are expanded after these stand elsewhere.
template <class V, WeightFormat kFormat, NanCodes kNans>
void expand_as(const uint8_t* codes, const uint8_t* next, uint32_t num_k, float* w) {
  constexpr uint32_t kPerWord = values_per_word(kFormat);
  for (uint32_t k = 0; k < num_k; k += kPerWord, codes += kPanelWordBytes, next += kPanelWordBytes) {
    __builtin_prefetch(next);
    for (uint32_t col = 0; col < kPanelCols; col += V::kLanes) {
      const auto words = V::load_words(codes + 4 * col);
      expand_part<V, kFormat, kNans>(part_of<V, kFormat, Part::low>(words), w + k * kPanelCols + col);
      if constexpr (kFormat == WeightFormat::mxfp4) {
        const uint32_t high_k = k + values_per_part(kFormat);
        expand_part<V, kFormat, kNans>(part_of<V, kFormat, Part::high>(words), w + high_k * kPanelCols + col);
      }
    }
  }
}

template <class V>
void expand(WeightFormat format, const std::byte* codes, uint32_t num_k, float* w) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  switch (format) {
    case WeightFormat::fp8_block: return expand_as<V, WeightFormat::fp8_block, NanCodes::some>(bytes, bytes, num_k, w);
    case WeightFormat::mxfp4: return expand_as<V, WeightFormat::mxfp4, NanCodes::none>(bytes, bytes, num_k, w);
    case WeightFormat::bf16: return expand_as<V, WeightFormat::bf16, NanCodes::none>(bytes, bytes, num_k, w);
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
template <class V, WeightFormat kFormat>
MM_ALWAYS_INLINE void promote(V sum, V a_scale, V w_scale, float* total) {
  if constexpr (kFormat == WeightFormat::bf16) {
    fma(sum, a_scale, V::load(total)).store(total);
  } else {
    constexpr float kSums = kFormat == WeightFormat::fp8_block ? V::kFp8.sums() : kMovedE2m1.sums();
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
template <class V, WeightFormat kFormat, uint32_t kRows, uint32_t kPanels, uint32_t j = 0>
MM_ALWAYS_INLINE void add_part(const typename V::Words (&parts)[kPanels][kPanelCols / V::kLanes], const float* a,
                               size_t a_stride, Sums<V, kRows, kPanels>& sums) {
  if constexpr (j < values_per_part(kFormat)) {
    V values[kRows];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) values[r] = V::broadcast(a[r * a_stride + j]);
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kPanelCols / V::kLanes; ++v) {
        const V w = value_of<V, kFormat, j>(parts[p][v]);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) sums.of[r][p][v] = fma(values[r], w, sums.of[r][p][v]);
      }
    }
    add_part<V, kFormat, kRows, kPanels, j + 1>(parts, a, a_stride, sums);
  }
}

/// Loads one word of every output column of all panels and takes its `kPart`.
template <class V, WeightFormat kFormat, Part kPart, uint32_t kPanels>
MM_ALWAYS_INLINE void load_parts(const uint8_t* codes, size_t panel_code_bytes,
                                 typename V::Words (&parts)[kPanels][kPanelCols / V::kLanes]) {
#pragma GCC unroll 16
  for (uint32_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kPanelCols / V::kLanes; ++v) {
      parts[p][v] = part_of<V, kFormat, kPart>(V::load_words(codes + p * panel_code_bytes + 4 * v * V::kLanes));
    }
  }
}

/// `kRows` rows by `kPanels` panels from `panel` on, over all of the call's K.
template <class V, WeightFormat kFormat, uint32_t kRows, uint32_t kPanels>
void stream_panels(const MultiplyArgs& args, uint32_t panel) {
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
      typename V::Words parts[kPanels][kVecs];
      load_parts<V, kFormat, Part::low, kPanels>(codes, panel_code_bytes, parts);
      add_part<V, kFormat, kRows, kPanels>(parts, args.a + k, args.a_stride, sums);
      if constexpr (kFormat == WeightFormat::mxfp4) {
        load_parts<V, kFormat, Part::high, kPanels>(codes, panel_code_bytes, parts);
        add_part<V, kFormat, kRows, kPanels>(parts, args.a + k + values_per_part(kFormat), args.a_stride, sums);
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
          promote<V, kFormat>(sums.of[r][p][v], a_scale, w_scale,
                              totals + r * args.total_stride + p * kPanelCols + v * V::kLanes);
        }
      }
    }
    scales += segment_scale_bytes;
  }
}

/// All panels of the call for a row count known at run time. REQUIRES 1 <= num_rows <= kRows.
template <class V, WeightFormat kFormat, uint32_t kRows>
void stream_rows(const MultiplyArgs& args) {
  if constexpr (kRows > 1) {
    if (args.num_rows < kRows) return stream_rows<V, kFormat, kRows - 1>(args);
  }
  // Two panels while their sums fit the registers: more independent sums hide the latency of the multiply-adds.
  constexpr uint32_t kPanels = kRows <= V::kPairedRows ? 2 : 1;
  uint32_t panel = 0;
  for (; panel + kPanels <= args.num_panels; panel += kPanels) stream_panels<V, kFormat, kRows, kPanels>(args, panel);
  for (; panel < args.num_panels; ++panel) stream_panels<V, kFormat, kRows, 1>(args, panel);
}

// ---------------------------------------------------------------- many rows

/// One K group of one panel, expanded.
struct ExpandedGroup {
  const float* w = nullptr;         // [num_k, 16]
  const uint8_t* scales = nullptr;  // of the group's first segment
  const float* a = nullptr;         // [num_rows, a_stride], of the group's first column
  const float* a_scales = nullptr;  // [num_rows * a_scale_stride]
  float* totals = nullptr;          // [num_rows, total_stride], of the panel's first column
  uint32_t num_k = 0;
};

/// `kRows` rows from `first_row` on: their sums of one panel stay in registers for a whole segment.
template <class V, WeightFormat kFormat, uint32_t kRows>
void multiply_rows(const MultiplyArgs& args, const ExpandedGroup& group, uint32_t first_row) {
  constexpr uint32_t kVecs = kPanelCols / V::kLanes;
  const PackedLayout& layout = args.matrix->layout;
  const float* a = group.a + first_row * args.a_stride;
  const float* a_scales = group.a_scales + first_row * args.a_scale_stride;
  float* totals = group.totals + first_row * args.total_stride;
  const uint8_t* scales = group.scales;
  for (uint32_t begin = 0; begin < group.num_k; begin += layout.segment_k) {
    const uint32_t end = flow::min_of(begin + layout.segment_k, group.num_k);
    V sums[kRows][kVecs];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) sums[r][v] = V::broadcast(0.0F);
    }
    for (uint32_t k = begin; k < end; ++k) {
      V w[kVecs];
#pragma GCC unroll 16
      for (uint32_t v = 0; v < kVecs; ++v) w[v] = V::load(group.w + size_t{k} * kPanelCols + v * V::kLanes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const V value = V::broadcast(a[r * args.a_stride + k]);
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVecs; ++v) sums[r][v] = fma(value, w[v], sums[r][v]);
      }
    }
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kVecs; ++v) {
      const V w_scale = load_scales<V>(layout.scale, scales, v * V::kLanes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const V a_scale = V::broadcast(a_scales[r * args.a_scale_stride]);
        promote<V, kFormat>(sums[r][v], a_scale, w_scale, totals + r * args.total_stride + v * V::kLanes);
      }
    }
    scales += layout.segment_scale_bytes();
  }
}

/// multiply_rows with a row count known only at run time. REQUIRES 1 <= num_rows <= kRows.
template <class V, WeightFormat kFormat, uint32_t kRows>
void multiply_some_rows(const MultiplyArgs& args, const ExpandedGroup& group, uint32_t first_row, uint32_t num_rows) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) return multiply_some_rows<V, kFormat, kRows - 1>(args, group, first_row, num_rows);
  }
  multiply_rows<V, kFormat, kRows>(args, group, first_row);
}

/// Rows are shared out evenly: 16 rows over blocks of at most 6 go as 6, 5, 5, since a short block waits for its FMAs.
template <class V, WeightFormat kFormat>
void multiply_group(const MultiplyArgs& args, const ExpandedGroup& group) {
  uint32_t row = 0;
  for (uint32_t blocks = (args.num_rows + V::kMaxRows - 1) / V::kMaxRows; blocks > 0; --blocks) {
    const uint32_t num_rows = (args.num_rows - row + blocks - 1) / blocks;
    multiply_some_rows<V, kFormat, V::kMaxRows>(args, group, row, num_rows);
    row += num_rows;
  }
}

template <class V, WeightFormat kFormat>
void expand_and_multiply(const MultiplyArgs& args) {
  const PackedLayout& layout = args.matrix->layout;
  for (uint32_t k = 0; k < args.num_k; k += kGroupK) {
    const uint32_t num_k = flow::min_of(kGroupK, args.num_k - k);
    const auto* first_codes = reinterpret_cast<const uint8_t*>(args.matrix->codes) +
                              args.first_panel * layout.panel_code_bytes() + layout.code_bytes(args.first_k + k);
    // Beyond the last group there is another panel's beginning, or nothing: asking for it does no harm.
    const auto* next_first_codes = first_codes + layout.code_bytes(kGroupK);
    for (uint32_t panel = 0; panel < args.num_panels; ++panel) {
      const size_t panel_idx = args.first_panel + panel;
      const auto* codes = first_codes + panel * layout.panel_code_bytes();
      const auto* next = panel + 1 < args.num_panels ? codes + layout.panel_code_bytes() : next_first_codes;
      if (args.matrix->nan_codes == NanCodes::some) {
        expand_as<V, kFormat, NanCodes::some>(codes, next, num_k, args.w);
      } else {
        expand_as<V, kFormat, NanCodes::none>(codes, next, num_k, args.w);
      }
      const auto* scales = reinterpret_cast<const uint8_t*>(args.matrix->scales) +
                           panel_idx * layout.panel_scale_bytes() +
                           (args.first_k + k) / layout.segment_k * layout.segment_scale_bytes();
      multiply_group<V, kFormat>(args, {.w = args.w,
                                        .scales = scales,
                                        .a = args.a + k,
                                        .a_scales = args.a_scales + k / kGroupK,
                                        .totals = args.totals + size_t{panel} * kPanelCols,
                                        .num_k = num_k});
    }
  }
}

// ---------------------------------------------------------------- all

template <class V, WeightFormat kFormat>
void multiply_as(const MultiplyArgs& args) {
  // Streaming expands whole words and looks for no NaN.
  const bool streams = args.num_rows <= kMaxStreamedRows && args.matrix->nan_codes == NanCodes::none &&
                       args.matrix->layout.segment_k % values_per_word(kFormat) == 0;
  if (args.num_rows == 0) return;
  if (streams) return stream_rows<V, kFormat, kMaxStreamedRows>(args);
  expand_and_multiply<V, kFormat>(args);
}

template <class V>
void multiply(const MultiplyArgs& args) {
  switch (args.matrix->layout.format) {
    case WeightFormat::fp8_block: return multiply_as<V, WeightFormat::fp8_block>(args);
    case WeightFormat::mxfp4: return multiply_as<V, WeightFormat::mxfp4>(args);
    case WeightFormat::bf16: return multiply_as<V, WeightFormat::bf16>(args);
  }
}

}  // namespace
}  // namespace megamoe::cpu
