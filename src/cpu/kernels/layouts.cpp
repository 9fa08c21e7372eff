// What an expert's weights must look like, and the packed layouts that follow from them.

#include <numeric>

#include "cpu/kernels/pack.hpp"
#include "host/errors.hpp"

namespace megamoe::cpu {
namespace {

/// One matrix under its name, with the size that the shape gives it.
struct NamedMatrix {
  std::string name;  ///< "expert 12: gate"
  const WeightMatrix& matrix;
  uint64_t num_rows;  ///< wanted
  uint32_t num_cols;  ///< wanted
};

bool is_known(WeightFormat format) {
  return format == WeightFormat::fp8_block || format == WeightFormat::mxfp4 || format == WeightFormat::bf16;
}

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

uint64_t value_bytes(WeightFormat format, uint64_t num_values) {
  switch (format) {
    case WeightFormat::fp8_block: return num_values;
    case WeightFormat::mxfp4: return num_values / 2;
    case WeightFormat::bf16: return num_values * 2;
  }
  return 0;
}

size_t num_scales(const WeightMatrix& matrix) {
  return std::visit([](const auto& scales) { return scales.size(); }, matrix.scales);
}

std::string size_text(uint64_t num_rows, uint64_t num_cols) { return fmt::format("{}x{}", num_rows, num_cols); }

std::string block_text(const WeightMatrix& matrix) { return size_text(matrix.block_rows, matrix.block_cols); }

// ---------------------------------------------------------------- one matrix

Status check_size(const NamedMatrix& named) {
  const WeightMatrix& m = named.matrix;
  if (m.num_rows != named.num_rows) {
    return invalid_argument(fmt::format("{} must have {} rows", named.name, named.num_rows), m.num_rows,
                            "check hidden and intermediate of the shape, and that the matrix is not transposed");
  }
  if (m.num_cols != named.num_cols) {
    return invalid_argument(fmt::format("{} must have {} columns", named.name, named.num_cols), m.num_cols,
                            "check hidden and intermediate of the shape; count MXFP4 columns in values, not bytes");
  }
  const uint64_t wanted = value_bytes(m.format, named.num_rows * named.num_cols);
  if (m.values.size() != wanted) {
    return invalid_argument(
        fmt::format("{} ({}) must have {} bytes of values", named.name, to_string(m.format), wanted), m.values.size(),
        "pass the whole matrix in the format that it says");
  }
  if (m.values.data() == nullptr) {
    return invalid_argument(fmt::format("{} must point to its values", named.name), "null", "pass the matrix's memory");
  }
  return {};
}

Status check_block(const NamedMatrix& named) {
  const WeightMatrix& m = named.matrix;
  switch (m.format) {
    case WeightFormat::fp8_block:
      if (m.block_rows > 0 && m.block_cols > 0) return {};
      return invalid_argument(fmt::format("{} (fp8) must have a scale block of at least 1x1", named.name),
                              block_text(m), "take the block from the checkpoint (weight_block_size)");
    case WeightFormat::mxfp4:
      if (m.block_rows == 1 && m.block_cols == kMxfp4Group) return {};
      return invalid_argument(fmt::format("{} (mxfp4) must have a scale block of 1x32", named.name), block_text(m),
                              "set block_rows 1 and block_cols 32, or name the format that the matrix has");
    case WeightFormat::bf16:
      if (m.block_rows == 0 && m.block_cols == 0) return {};
      return invalid_argument(fmt::format("{} (bf16) must have no scale block, 0x0", named.name), block_text(m),
                              "set both to 0, or name the format that the matrix has");
  }
  return {};
}

/// REQUIRES check_block() passed.
Status check_scales(const NamedMatrix& named) {
  const WeightMatrix& m = named.matrix;
  if (m.format == WeightFormat::bf16) {
    if (num_scales(m) == 0) return {};
    return invalid_argument(fmt::format("{} (bf16) must have no scales", named.name), num_scales(m),
                            "pass an empty span, or name the format that the matrix has");
  }
  if (m.format == WeightFormat::mxfp4 && !std::holds_alternative<std::span<const E8m0>>(m.scales)) {
    return invalid_argument(fmt::format("{} (mxfp4) must have E8M0 scales", named.name), "F32 scales",
                            "pass the scales as bytes");
  }
  const uint64_t scale_rows = ceil_div(m.num_rows, m.block_rows);
  const uint64_t scale_cols = ceil_div(m.num_cols, m.block_cols);
  if (num_scales(m) != scale_rows * scale_cols) {
    return invalid_argument(fmt::format("{} with a scale block of {} must have {} = {} scales", named.name,
                                        block_text(m), size_text(scale_rows, scale_cols), scale_rows * scale_cols),
                            num_scales(m), "check the block against the checkpoint (weight_block_size)");
  }
  const bool is_null = std::visit([](const auto& scales) { return scales.data() == nullptr; }, m.scales);
  if (is_null) {
    return invalid_argument(fmt::format("{} must point to its scales", named.name), "null", "pass the scales' memory");
  }
  return {};
}

Status check_matrix(const NamedMatrix& named) {
  if (!is_known(named.matrix.format)) {
    return invalid_argument(fmt::format("{} must have format fp8, mxfp4 or bf16", named.name),
                            static_cast<unsigned>(named.matrix.format), "set format to a value of WeightFormat");
  }
  if (named.matrix.values.empty()) {
    return invalid_argument(fmt::format("{} must be given", named.name), "no values",
                            "pass the matrix, or choose the layout that the weights have");
  }
  MM_RETURN_IF_ERROR(check_size(named));
  MM_RETURN_IF_ERROR(check_block(named));
  return check_scales(named);
}

// ---------------------------------------------------------------- matrices together

Status check_absent(const std::string& name, bool is_empty, std::string_view layout) {
  if (is_empty) return {};
  return invalid_argument(fmt::format("{} must be empty with layout {}", name, layout), "values",
                          "pass the weights in one layout only");
}

Status check_same_format(const NamedMatrix& first, const NamedMatrix& second) {
  if (first.matrix.format == second.matrix.format) return {};
  return invalid_argument(
      fmt::format("{} must have the format of {}, {}", second.name, first.name, to_string(first.matrix.format)),
      to_string(second.matrix.format), "convert one of them");
}

Status check_bias(const std::string& name, std::span<const float> bias, uint64_t num_values) {
  if (bias.empty() || bias.size() == num_values) return {};
  return invalid_argument(fmt::format("{} must have {} values or none", name, num_values), bias.size(),
                          "pass one value per output column");
}

Status check_separate(const ExpertWeights& weights, const LayerShape& shape, std::string_view name) {
  const NamedMatrix gate{fmt::format("{}: gate", name), weights.gate, shape.intermediate, shape.hidden};
  const NamedMatrix up{fmt::format("{}: up", name), weights.up, shape.intermediate, shape.hidden};
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: gate_up", name), weights.gate_up.values.empty(), "separate"));
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: gate_up_bias", name), weights.gate_up_bias.empty(), "separate"));
  MM_RETURN_IF_ERROR(check_matrix(gate));
  MM_RETURN_IF_ERROR(check_matrix(up));
  MM_RETURN_IF_ERROR(check_same_format(gate, up));
  if (gate.matrix.block_rows != up.matrix.block_rows || gate.matrix.block_cols != up.matrix.block_cols) {
    return invalid_argument(fmt::format("{} must have the scale block of gate, {}", up.name, block_text(gate.matrix)),
                            block_text(up.matrix), "quantise both with the same block");
  }
  MM_RETURN_IF_ERROR(check_bias(fmt::format("{}: gate_bias", name), weights.gate_bias, shape.intermediate));
  return check_bias(fmt::format("{}: up_bias", name), weights.up_bias, shape.intermediate);
}

Status check_joined(const ExpertWeights& weights, const LayerShape& shape, std::string_view name) {
  const std::string_view layout = weights.layout == GateUpLayout::concatenated ? "concatenated" : "interleaved";
  const uint64_t num_rows = uint64_t{shape.intermediate} * 2;
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: gate", name), weights.gate.values.empty(), layout));
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: up", name), weights.up.values.empty(), layout));
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: gate_bias", name), weights.gate_bias.empty(), layout));
  MM_RETURN_IF_ERROR(check_absent(fmt::format("{}: up_bias", name), weights.up_bias.empty(), layout));
  MM_RETURN_IF_ERROR(check_matrix({fmt::format("{}: gate_up", name), weights.gate_up, num_rows, shape.hidden}));
  return check_bias(fmt::format("{}: gate_up_bias", name), weights.gate_up_bias, num_rows);
}

Status check_dimension(std::string_view name, std::string_view dimension, uint32_t value) {
  if (value > 0 && value % kPanelCols == 0) return {};
  return invalid_argument(fmt::format("{}: {} must be a positive multiple of {}", name, dimension, kPanelCols), value,
                          "pad the weights");
}

/// `panel_rows`: rows of the matrix that one panel's columns span. REQUIRES check_matrix() passed.
PackedLayout packed_layout(const WeightMatrix& matrix, uint32_t num_panels, uint32_t panel_rows) {
  PackedLayout layout{matrix.format, PackedScale::none, num_panels, matrix.num_cols, kGroupK};
  switch (matrix.format) {
    case WeightFormat::bf16: break;
    case WeightFormat::mxfp4:
      layout.segment_k = kMxfp4Group;
      layout.scale = PackedScale::column_e8m0;
      break;
    case WeightFormat::fp8_block:
      layout.segment_k = std::gcd(kGroupK, matrix.block_cols);
      layout.scale = matrix.block_rows % panel_rows == 0 ? PackedScale::panel_f32 : PackedScale::column_f32;
      break;
  }
  return layout;
}

}  // namespace

Result<ExpertLayouts> expert_layouts(const ExpertWeights& weights, const LayerShape& shape, std::string_view name) {
  MM_RETURN_IF_ERROR(check_dimension(name, "hidden", shape.hidden));
  MM_RETURN_IF_ERROR(check_dimension(name, "intermediate", shape.intermediate));
  const bool is_separate = weights.layout == GateUpLayout::separate;
  if (!is_separate && weights.layout != GateUpLayout::concatenated && weights.layout != GateUpLayout::interleaved) {
    return invalid_argument(fmt::format("{}: layout must be separate, concatenated or interleaved", name),
                            static_cast<unsigned>(weights.layout), "set layout to a value of GateUpLayout");
  }
  MM_RETURN_IF_ERROR(is_separate ? check_separate(weights, shape, name) : check_joined(weights, shape, name));

  const NamedMatrix gate{fmt::format("{}: {}", name, is_separate ? "gate" : "gate_up"),
                         is_separate ? weights.gate : weights.gate_up, 0, 0};
  const NamedMatrix down{fmt::format("{}: down", name), weights.down, shape.hidden, shape.intermediate};
  MM_RETURN_IF_ERROR(check_matrix(down));
  MM_RETURN_IF_ERROR(check_same_format(gate, down));
  MM_RETURN_IF_ERROR(check_bias(fmt::format("{}: down_bias", name), weights.down_bias, shape.hidden));

  ExpertLayouts layouts;
  const uint32_t gate_rows = weights.layout == GateUpLayout::interleaved ? 2 * kPanelCols : kPanelCols;
  layouts.gemm1 = packed_layout(gate.matrix, 2 * (shape.intermediate / kPanelCols), gate_rows);
  layouts.gemm2 = packed_layout(weights.down, shape.hidden / kPanelCols, kPanelCols);
  return layouts;
}

}  // namespace megamoe::cpu
