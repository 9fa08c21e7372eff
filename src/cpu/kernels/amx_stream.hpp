#pragma once

// Few rows for the AMX kernels. Internal linkage, for the reason given in generic.hpp.
//
// A tile of one row would keep the weights waiting on their way through memory. Few rows are multiplied in registers
// instead, in the order of the tile instruction: over 32 columns of K the even and the odd products of the pairs are
// summed apart, one multiply-add each, and their sum is added to what was there.

#include "cpu/kernels/bf16_pairs.hpp"

namespace megamoe::cpu {
namespace {

using Vec = Bf16Pairs::Vec;

/// Columns of K of one tile instruction.
constexpr uint32_t kTileK = 32;
/// Up to so many rows the stream is faster than tiles, whose time hardly depends on the number of rows
/// (docs/perf/0005).
constexpr uint32_t kMaxTileStreamRows = 2;

/// Columns of K that are summed before they are promoted: sums of mxfp4, whose scales are folded in, run over a group.
template <WeightFormat kFormat>
uint32_t summed_k(const PackedLayout& layout) {
  return kFormat == WeightFormat::mxfp4 ? kGroupK : layout.segment_k;
}

/// Where one K group of one panel stands.
struct PanelGroup {
  const uint8_t* codes;
  const uint8_t* scales;  // of its first segment
};

PanelGroup panel_group(const MultiplyArgs& args, uint32_t panel, uint32_t k) {
  const PackedLayout& layout = args.matrix->layout;
  const size_t idx = args.first_panel + panel;
  const uint32_t first_k = args.first_k + k;
  return {reinterpret_cast<const uint8_t*>(args.matrix->codes) + idx * layout.panel_code_bytes() +
              layout.code_bytes(first_k),
          reinterpret_cast<const uint8_t*>(args.matrix->scales) + idx * layout.panel_scale_bytes() +
              first_k / layout.segment_k * layout.segment_scale_bytes()};
}

/// Of pairs, or the sums of their products.
struct Halves {
  Vec even;
  Vec odd;
};

/// The pairs of one part of all panels' words.
template <WeightFormat kFormat, uint32_t kRows, uint32_t kPanels, uint32_t j = 0>
MM_ALWAYS_INLINE void add_pairs(const __m512i (&parts)[kPanels], const uint32_t* a, size_t a_stride,
                                Halves (&halves)[kRows][kPanels]) {
  if constexpr (j < values_per_part(kFormat) / 2) {
    Halves w[kPanels];
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
      const __m512i pairs = Bf16Pairs::operand_of<kFormat, NanCodes::none, j>(parts[p]);
      w[p] = {Vec::bf16_half<0>(pairs), Vec::bf16_half<1>(pairs)};
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m512i pairs = Bf16Pairs::broadcast(a + r * a_stride + j);
      const Halves values = {Vec::bf16_half<0>(pairs), Vec::bf16_half<1>(pairs)};
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) {
        halves[r][p] = {fma(values.even, w[p].even, halves[r][p].even), fma(values.odd, w[p].odd, halves[r][p].odd)};
      }
    }
    add_pairs<kFormat, kRows, kPanels, j + 1>(parts, a, a_stride, halves);
  }
}

/// Columns [k, end) of K, at most 32, of rows that `a` begins, by the words that `codes` begins: sums += even + odd.
template <WeightFormat kFormat, uint32_t kRows, uint32_t kPanels>
MM_ALWAYS_INLINE void add_step(const uint8_t* codes, size_t panel_code_bytes, const uint32_t* a, size_t a_stride,
                               uint32_t num_k, const Vec (&scales)[kPanels], Vec (&sums)[kRows][kPanels]) {
  constexpr uint32_t kPartPairs = values_per_part(kFormat) / 2;
  Halves halves[kRows][kPanels];
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) halves[r][p] = {Vec::broadcast(0.0F), Vec::broadcast(0.0F)};
  }
  for (uint32_t k = 0; k < num_k; k += values_per_word(kFormat), codes += kPanelWordBytes) {
    __m512i parts[kPanels];
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
      __builtin_prefetch(codes + p * panel_code_bytes + kPrefetchBytes);
      parts[p] = Vec::load_words(codes + p * panel_code_bytes);
    }
    add_pairs<kFormat, kRows, kPanels>(parts, a + k / 2, a_stride, halves);
    if constexpr (kFormat == WeightFormat::mxfp4) {
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) parts[p] = Bf16Pairs::part_of<kFormat, Part::high>(parts[p]);
      add_pairs<kFormat, kRows, kPanels>(parts, a + k / 2 + kPartPairs, a_stride, halves);
    }
  }
  const Vec one = Vec::broadcast(1.0F);
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
      sums[r][p] = fma(fma(halves[r][p].even, one, halves[r][p].odd), scales[p], sums[r][p]);
    }
  }
}

/// `kRows` rows by `kPanels` panels from `panel` on, over all of the call's K.
template <WeightFormat kFormat, uint32_t kRows, uint32_t kPanels>
void stream_tiles(const MultiplyArgs& args, uint32_t panel) {
  const PackedLayout& layout = args.matrix->layout;
  const size_t panel_code_bytes = layout.panel_code_bytes();
  const size_t panel_scale_bytes = layout.panel_scale_bytes();
  const auto [codes, first_scales] = panel_group(args, panel, 0);
  const uint8_t* scales = first_scales;
  const uint32_t segment_k = summed_k<kFormat>(layout);
  const Vec one = Vec::broadcast(1.0F);
  for (uint32_t begin = 0; begin < args.num_k; begin += segment_k) {
    const uint32_t end = flow::min_of(begin + segment_k, args.num_k);
    Vec sums[kRows][kPanels];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) sums[r][p] = Vec::broadcast(0.0F);
    }
    for (uint32_t k = begin; k < end; k += kTileK) {
      Vec step_scales[kPanels];
#pragma GCC unroll 16
      for (uint32_t p = 0; p < kPanels; ++p) {
        step_scales[p] = kFormat == WeightFormat::mxfp4 ? Vec::e8m0_scales(scales + p * panel_scale_bytes) : one;
      }
      add_step<kFormat, kRows, kPanels>(codes + layout.code_bytes(k), panel_code_bytes, args.a + k / 2, args.a_stride,
                                        flow::min_of(kTileK, end - k), step_scales, sums);
      if constexpr (kFormat == WeightFormat::mxfp4) scales += kPanelCols;
    }
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kPanels; ++p) {
      const Vec w_scale =
          kFormat == WeightFormat::mxfp4 ? one : load_scales<Vec>(layout.scale, scales + p * panel_scale_bytes, 0);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const Vec a_scale = Vec::broadcast(args.a_scales[r * args.a_scale_stride + begin / kGroupK]);
        promote<Bf16Pairs, kFormat>(sums[r][p], a_scale, w_scale,
                                    args.totals + r * args.total_stride + (panel + p) * kPanelCols);
      }
    }
    if constexpr (kFormat != WeightFormat::mxfp4) scales += layout.segment_scale_bytes();
  }
}

/// All panels of the call for a row count known at run time. REQUIRES 1 <= num_rows <= kRows.
template <WeightFormat kFormat, uint32_t kRows>
void stream_tile_rows(const MultiplyArgs& args) {
  if constexpr (kRows > 1) {
    if (args.num_rows < kRows) return stream_tile_rows<kFormat, kRows - 1>(args);
  }
  constexpr uint32_t kPanels = 4 / kRows;  // three sums each, and what the words expand to
  uint32_t panel = 0;
  for (; panel + kPanels <= args.num_panels; panel += kPanels) stream_tiles<kFormat, kRows, kPanels>(args, panel);
  for (; panel < args.num_panels; ++panel) stream_tiles<kFormat, kRows, 1>(args, panel);
}

}  // namespace
}  // namespace megamoe::cpu
