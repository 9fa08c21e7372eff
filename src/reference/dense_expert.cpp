#include "reference/dense_expert.hpp"

#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "host/errors.hpp"

namespace megamoe::reference {
namespace {

size_t divide_up(size_t value, size_t divisor) { return (value + divisor - 1) / divisor; }

size_t num_scales(const WeightMatrix& matrix) {
  return std::visit([](const auto& scales) { return scales.size(); }, matrix.scales);
}

double scale_at(const WeightMatrix& matrix, size_t scale_idx) {
  if (const auto* f32 = std::get_if<std::span<const float>>(&matrix.scales))
    return static_cast<double>((*f32)[scale_idx]);
  return static_cast<double>(e8m0_to_float(std::get<std::span<const E8m0>>(matrix.scales)[scale_idx].bits));
}

Status check_matrix(const WeightMatrix& matrix, uint32_t num_rows, uint32_t num_cols, const std::string& name) {
  if (matrix.num_rows != num_rows || matrix.num_cols != num_cols) {
    return invalid_argument(fmt::format("{} must be [{}, {}]", name, num_rows, num_cols),
                            fmt::format("[{}, {}]", matrix.num_rows, matrix.num_cols), "pass the layer's own weights");
  }
  const size_t num_values = size_t{num_rows} * num_cols;
  const size_t num_bytes = matrix.format == WeightFormat::bf16    ? num_values * 2
                           : matrix.format == WeightFormat::mxfp4 ? num_values / 2
                                                                  : num_values;
  if (matrix.values.size() != num_bytes) {
    return invalid_argument(fmt::format("{} must have {} bytes of values", name, num_bytes), matrix.values.size(),
                            "pass the whole matrix");
  }
  if (matrix.format == WeightFormat::bf16) return {};
  if (matrix.block_rows == 0 || matrix.block_cols == 0) {
    return invalid_argument(fmt::format("{} must have a scale block of at least 1x1", name),
                            fmt::format("{}x{}", matrix.block_rows, matrix.block_cols),
                            "set block_rows and block_cols");
  }
  const size_t wanted = divide_up(num_rows, matrix.block_rows) * divide_up(num_cols, matrix.block_cols);
  if (num_scales(matrix) != wanted) {
    return invalid_argument(fmt::format("{} must have {} scales", name, wanted), num_scales(matrix),
                            "pass one scale per block");
  }
  return {};
}

double value_at(const WeightMatrix& matrix, size_t row, size_t col) {
  const size_t idx = row * matrix.num_cols + col;
  switch (matrix.format) {
    case WeightFormat::fp8_block: return static_cast<double>(e4m3_to_float(static_cast<uint8_t>(matrix.values[idx])));
    case WeightFormat::mxfp4: {
      const auto packed = static_cast<uint8_t>(matrix.values[idx / 2]);
      const uint32_t code = col % 2 == 0 ? e2m1_even_column(packed) : e2m1_odd_column(packed);
      return static_cast<double>(e2m1_to_float(code));
    }
    case WeightFormat::bf16: {
      uint16_t bits = 0;
      std::memcpy(&bits, matrix.values.data() + idx * 2, 2);
      return static_cast<double>(bf16_to_float(bits));
    }
  }
  return 0;
}

/// Rows first_row, first_row + row_step, ... of the matrix, `num_rows` of them.
std::vector<double> dense_rows(const WeightMatrix& matrix, size_t first_row, size_t row_step, size_t num_rows) {
  std::vector<double> dense(num_rows * matrix.num_cols);
  const bool has_scales = matrix.format != WeightFormat::bf16;
  const size_t scales_per_row = has_scales ? divide_up(matrix.num_cols, matrix.block_cols) : 0;
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t row = first_row + i * row_step;
    for (size_t col = 0; col < matrix.num_cols; ++col) {
      const double scale =
          has_scales ? scale_at(matrix, row / matrix.block_rows * scales_per_row + col / matrix.block_cols) : 1.0;
      dense[i * matrix.num_cols + col] = value_at(matrix, row, col) * scale;
    }
  }
  return dense;
}

Status fill_bias(std::span<const float> bias, size_t first, size_t step, size_t num_rows, size_t num_total,
                 const std::string& name, std::vector<double>& dense) {
  if (bias.empty()) return {};
  if (bias.size() != num_total) {
    return invalid_argument(fmt::format("{} must have {} values", name, num_total), bias.size(), "pass one per row");
  }
  for (size_t i = 0; i < num_rows; ++i) dense[i] = static_cast<double>(bias[first + i * step]);
  return {};
}

Status fill_separate(const ExpertWeights& weights, const LayerShape& shape, const std::string& name,
                     DenseExpert& dense) {
  const uint32_t num_rows = shape.intermediate;
  MM_RETURN_IF_ERROR(check_matrix(weights.gate, num_rows, shape.hidden, name + " gate"));
  MM_RETURN_IF_ERROR(check_matrix(weights.up, num_rows, shape.hidden, name + " up"));
  dense.gate = dense_rows(weights.gate, 0, 1, num_rows);
  dense.up = dense_rows(weights.up, 0, 1, num_rows);
  MM_RETURN_IF_ERROR(fill_bias(weights.gate_bias, 0, 1, num_rows, num_rows, name + " gate_bias", dense.gate_bias));
  return fill_bias(weights.up_bias, 0, 1, num_rows, num_rows, name + " up_bias", dense.up_bias);
}

Status fill_joined(const ExpertWeights& weights, const LayerShape& shape, const std::string& name, DenseExpert& dense) {
  const uint32_t num_rows = shape.intermediate;
  const bool interleaved = weights.layout == GateUpLayout::interleaved;
  const size_t first_up = interleaved ? 1 : num_rows;
  const size_t step = interleaved ? 2 : 1;
  MM_RETURN_IF_ERROR(check_matrix(weights.gate_up, 2 * num_rows, shape.hidden, name + " gate_up"));
  dense.gate = dense_rows(weights.gate_up, 0, step, num_rows);
  dense.up = dense_rows(weights.gate_up, first_up, step, num_rows);
  const std::string bias_name = name + " gate_up_bias";
  MM_RETURN_IF_ERROR(
      fill_bias(weights.gate_up_bias, 0, step, num_rows, size_t{num_rows} * 2, bias_name, dense.gate_bias));
  return fill_bias(weights.gate_up_bias, first_up, step, num_rows, size_t{num_rows} * 2, bias_name, dense.up_bias);
}

}  // namespace

Result<DenseExpert> dense_expert(const ExpertWeights& weights, const LayerShape& shape, const std::string& name) {
  DenseExpert dense;
  dense.gate_bias.assign(shape.intermediate, 0.0);
  dense.up_bias.assign(shape.intermediate, 0.0);
  dense.down_bias.assign(shape.hidden, 0.0);
  MM_RETURN_IF_ERROR(weights.layout == GateUpLayout::separate ? fill_separate(weights, shape, name, dense)
                                                              : fill_joined(weights, shape, name, dense));
  MM_RETURN_IF_ERROR(check_matrix(weights.down, shape.hidden, shape.intermediate, name + " down"));
  dense.down = dense_rows(weights.down, 0, 1, shape.hidden);
  MM_RETURN_IF_ERROR(
      fill_bias(weights.down_bias, 0, 1, shape.hidden, shape.hidden, name + " down_bias", dense.down_bias));
  return dense;
}

}  // namespace megamoe::reference
