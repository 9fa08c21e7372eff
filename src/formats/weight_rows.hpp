#pragma once

// Reading an expert's weights one output column at a time, out of any layout. Values and scales come straight out of
// files, so nothing here assumes that they are aligned.

#include <cstddef>
#include <cstring>
#include <span>
#include <variant>

#include "formats/e8m0.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// One output column of the layer's product: a row of the matrix that it comes from.
struct WeightRow {
  const WeightMatrix* matrix = nullptr;
  uint32_t row = 0;
};

enum class GateUpHalf : uint32_t { gate, up };

/// Where column `col` of gate or up stands in the checkpoint's layout. REQUIRES col < intermediate.
inline WeightRow gate_up_row(const ExpertWeights& weights, uint32_t intermediate, GateUpHalf half, uint32_t col) {
  const auto offset = static_cast<uint32_t>(half);
  switch (weights.layout) {
    case GateUpLayout::separate: return {half == GateUpHalf::gate ? &weights.gate : &weights.up, col};
    case GateUpLayout::concatenated: return {&weights.gate_up, offset * intermediate + col};
    case GateUpLayout::interleaved: return {&weights.gate_up, 2 * col + offset};
  }
  return {};
}

inline float load_float(const float* values, size_t idx) {
  float value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(values) + idx * sizeof(float), sizeof(float));
  return value;
}

/// Index of the scale of `source` in its matrix, for the columns of K from `k` on.
inline size_t scale_idx(const WeightRow& source, uint32_t k) {
  const WeightMatrix& matrix = *source.matrix;
  const size_t blocks_per_row = (size_t{matrix.num_cols} + matrix.block_cols - 1) / matrix.block_cols;
  return source.row / matrix.block_rows * blocks_per_row + k / matrix.block_cols;
}

inline float load_scale(const WeightMatrix& matrix, size_t idx) {
  if (const auto* scales = std::get_if<std::span<const E8m0>>(&matrix.scales)) {
    return e8m0_to_float((*scales)[idx].bits);
  }
  return load_float(std::get<std::span<const float>>(matrix.scales).data(), idx);
}

}  // namespace megamoe
