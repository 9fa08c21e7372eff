#pragma once

// Packing: from the matrices of a checkpoint to panels.

#include <cstddef>

#include "cpu/kernels/kernels.hpp"
#include "megamoe/types.hpp"

namespace megamoe::cpu {

/// Layouts of one expert's two packed matrices. gemm1 interleaves panels: panel 2p holds gate columns [16p, 16p + 16),
/// panel 2p + 1 the up columns of the same numbers. H and I are multiples of 16, so every panel is full.
struct ExpertLayouts {
  PackedLayout gemm1;  ///< 2 * I / 16 panels, num_k = H
  PackedLayout gemm2;  ///< H / 16 panels, num_k = I
};

/// Checks one expert's weights against the shape (every rule: formats of gate, up and down agree, dimensions, byte
/// counts, scale counts, block sizes, bias lengths, alignment of nothing assumed) and derives its layouts. `name`
/// ("expert 12") begins the message. Errors: invalid_argument.
Result<ExpertLayouts> expert_layouts(const ExpertWeights& weights, const LayerShape& shape, std::string_view name);

/// Panels [first, end) of a matrix; an end beyond the last panel means the last.
struct PanelRange {
  uint32_t first = 0;
  uint32_t end = UINT32_MAX;
};

/// Packs the panels of a range into memory of the sizes that the layouts give for the whole matrix, and tells what was
/// met on the way. Ranges that do not overlap may be packed at the same time. REQUIRES expert_layouts() succeeded for
/// these weights.
PackedFacts pack_gemm1(const ExpertWeights& weights, const LayerShape& shape, const PackedLayout& layout,
                       std::byte* codes, std::byte* scales, PanelRange panels = {});
PackedFacts pack_gemm2(const ExpertWeights& weights, const LayerShape& shape, const PackedLayout& layout,
                       std::byte* codes, std::byte* scales, PanelRange panels = {});

/// Adds to `facts` what was met elsewhere in the matrix.
void add(PackedFacts& facts, const PackedFacts& more);

/// Biases of one expert in the columns' order: gate [I], up [I] out of any layout; zeros where there are none.
void pack_biases(const ExpertWeights& weights, const LayerShape& shape, float* gate_bias, float* up_bias,
                 float* down_bias);

}  // namespace megamoe::cpu
