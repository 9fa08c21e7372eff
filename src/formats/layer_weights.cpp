#include "formats/layer_weights.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "formats/quote.hpp"
#include "formats/tensor_values.hpp"
#include "formats/weight_form.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

/// A run of rows, columns, blocks or bytes.
struct Run {
  uint64_t first = 0;
  uint64_t count = 0;
};

Run scaled(Run run, uint64_t factor) { return {run.first * factor, run.count * factor}; }

/// The blocks that a run touches. REQUIRES run.first is a multiple of block.
Run blocks_of(Run run, uint64_t block) { return {run.first / block, (run.count + block - 1) / block}; }

/// Copies that the views of one expert need; they live until the next expert is asked for.
class Scratch {
 public:
  void clear() {
    floats_.clear();
    halves_.clear();
    bytes_.clear();
  }

  std::span<const float> keep(TensorValues<float> values) { return floats_.emplace_back(std::move(values)).values(); }

  /// BF16 bytes at an address that BF16 may be read from.
  std::span<const std::byte> aligned_bf16(std::span<const std::byte> bytes) {
    return std::as_bytes(halves_.emplace_back(bytes).values());
  }

  std::span<std::byte> make_bytes(uint64_t count) { return bytes_.emplace_back(count); }

  /// Rows and byte columns of a row-major matrix: a view where the columns are whole rows, a copy otherwise.
  std::span<const std::byte> cut(std::span<const std::byte> matrix, uint64_t row_bytes, Run rows, Run columns) {
    const std::span<const std::byte> band = matrix.subspan(rows.first * row_bytes, rows.count * row_bytes);
    if (columns.count == row_bytes) return band;
    const std::span<std::byte> copy = make_bytes(rows.count * columns.count);
    for (uint64_t row = 0; row < rows.count; ++row) {
      const auto source = band.subspan(row * row_bytes + columns.first, columns.count);
      std::copy(source.begin(), source.end(), copy.begin() + static_cast<ptrdiff_t>(row * columns.count));
    }
    return copy;
  }

 private:
  std::vector<TensorValues<float>> floats_;
  std::vector<TensorValues<Bf16>> halves_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// [columns, rows] -> [rows, columns], in tiles that stay in the nearest cache.
void transpose(std::span<const std::byte> source, std::span<std::byte> target, uint64_t num_rows, uint64_t num_cols) {
  constexpr uint64_t kTile = 64;
  constexpr uint64_t kBytes = sizeof(Bf16);
  for (uint64_t row_base = 0; row_base < num_rows; row_base += kTile) {
    for (uint64_t col_base = 0; col_base < num_cols; col_base += kTile) {
      const uint64_t row_end = std::min(row_base + kTile, num_rows);
      const uint64_t col_end = std::min(col_base + kTile, num_cols);
      for (uint64_t row = row_base; row < row_end; ++row) {
        for (uint64_t col = col_base; col < col_end; ++col) {
          std::copy_n(&source[(col * num_rows + row) * kBytes], kBytes, &target[(row * num_cols + col) * kBytes]);
        }
      }
    }
  }
}

class SurveyedLayer final : public CheckpointLayer {
 public:
  SurveyedLayer(std::shared_ptr<const void> owner, const LayerSurvey& survey)
      : owner_(std::move(owner)), survey_(survey) {}

  /// Converts the router's weights, which stay for the life of the layer.
  Status load_router() {
    MM_RETURN_IF_ERROR(load(survey_.tensors.router_weight, gate_));
    MM_RETURN_IF_ERROR(load(survey_.tensors.logit_bias, logit_bias_));
    return load(survey_.tensors.selection_bias, selection_bias_);
  }

  const MoeLayerInfo& info() const override { return survey_.info; }

  RouterWeights router_weights() const override {
    return {gate_.values(), logit_bias_.values(), selection_bias_.values()};
  }

  Result<ExpertWeights> routed(uint32_t expert_idx) const override {
    const LayerShape& shape = survey_.info.shape;
    if (expert_idx >= shape.num_experts) return no_expert("expert_idx", shape.num_experts, expert_idx);
    scratch_.clear();
    if (survey_.tensors.is_stacked()) return stacked(expert_idx);
    return separate(survey_.tensors.experts[expert_idx], 1, 0);
  }

  Result<ExpertWeights> shared(uint32_t shared_idx) const override {
    const LayerShape& shape = survey_.info.shape;
    if (shared_idx >= shape.num_shared_experts) return no_expert("shared_idx", shape.num_shared_experts, shared_idx);
    scratch_.clear();
    return separate(survey_.tensors.shared, shape.num_shared_experts, shared_idx);
  }

 private:
  static Status no_expert(std::string_view what, uint32_t limit, uint32_t value) {
    return invalid_argument(fmt::format("{} must be below {}", what, limit), value, "ask for an expert of the layer");
  }

  static Status load(const TensorView* tensor, TensorValues<float>& target) {
    if (tensor == nullptr) return {};
    Result<TensorValues<float>> values = float_values(*tensor);
    if (!values.ok()) return values.status();
    target = *std::move(values);
    return {};
  }

  /// Part `part_idx` of `num_parts` that an expert of num_parts * I columns is cut into.
  Result<ExpertWeights> separate(const ExpertTensors& tensors, uint32_t num_parts, uint32_t part_idx) const {
    const LayerShape& shape = survey_.info.shape;
    const Run inner{uint64_t{part_idx} * shape.intermediate, shape.intermediate};
    const Run all{0, shape.hidden};
    const uint64_t inner_cols = uint64_t{num_parts} * shape.intermediate;
    const auto part = [&](Projection projection) { return tensors[static_cast<size_t>(projection)]; };
    ExpertWeights weights;
    weights.layout = GateUpLayout::separate;
    MM_RETURN_IF_ERROR(fill(part(Projection::gate), inner, all, shape.hidden, weights.gate));
    MM_RETURN_IF_ERROR(fill(part(Projection::up), inner, all, shape.hidden, weights.up));
    MM_RETURN_IF_ERROR(fill(part(Projection::down), all, inner, inner_cols, weights.down));
    return weights;
  }

  Result<ExpertWeights> stacked(uint32_t expert_idx) const {
    const LayerShape& shape = survey_.info.shape;
    const ExpertTensors& tensors = survey_.tensors.experts.front();
    const ProjectionTensors& gate_up = tensors[static_cast<size_t>(Projection::gate_up)];
    const ProjectionTensors& down = tensors[static_cast<size_t>(Projection::down)];
    const uint64_t gate_up_rows = uint64_t{2} * shape.intermediate;
    ExpertWeights weights;
    weights.layout = survey_.info.layout;
    MM_RETURN_IF_ERROR(fill_stacked(gate_up, expert_idx, gate_up_rows, shape.hidden, weights.gate_up));
    MM_RETURN_IF_ERROR(fill_stacked(down, expert_idx, shape.hidden, shape.intermediate, weights.down));
    MM_RETURN_IF_ERROR(fill_bias(gate_up.bias, expert_idx, weights.gate_up_bias));
    MM_RETURN_IF_ERROR(fill_bias(down.bias, expert_idx, weights.down_bias));
    return weights;
  }

  Status fill_stacked(const ProjectionTensors& part, uint64_t expert_idx, uint64_t num_rows, uint64_t num_cols,
                      WeightMatrix& matrix) const {
    // Seen as one tall matrix, an expert is a band of rows.
    MM_RETURN_IF_ERROR(fill(part, {expert_idx * num_rows, num_rows}, {0, num_cols}, num_cols, matrix));
    if (!part.is_transposed) return {};
    const std::span<std::byte> copy = scratch_.make_bytes(matrix.values.size());
    transpose(matrix.values, copy, num_rows, num_cols);
    matrix.values = copy;
    return {};
  }

  Status fill_bias(const TensorView* bias, uint64_t expert_idx, std::span<const float>& target) const {
    if (bias == nullptr) return {};
    const uint64_t row_bytes = bias->bytes.size() / survey_.info.shape.num_experts;
    Result<TensorValues<float>> values = float_values(*bias, bias->bytes.subspan(expert_idx * row_bytes, row_bytes));
    if (!values.ok()) return values.status();
    target = scratch_.keep(*std::move(values));
    return {};
  }

  /// `rows` and `cols` of a weight that has `row_cols` columns in the file.
  Status fill(const ProjectionTensors& part, Run rows, Run cols, uint64_t row_cols, WeightMatrix& matrix) const {
    const Result<WeightForm> form = weight_form(part, survey_.tensors.rule->storage);
    if (!form.ok()) return form.status();
    matrix.format = form->format;
    matrix.num_rows = static_cast<uint32_t>(rows.count);
    matrix.num_cols = static_cast<uint32_t>(cols.count);
    switch (form->format) {
      case WeightFormat::bf16: {
        constexpr uint64_t kBytes = sizeof(Bf16);
        matrix.values =
            scratch_.aligned_bf16(scratch_.cut(part.weight->bytes, row_cols * kBytes, rows, scaled(cols, kBytes)));
        return {};
      }
      case WeightFormat::mxfp4: {
        const Run packed{cols.first / kMxfp4PerByte, cols.count / kMxfp4PerByte};
        matrix.values = scratch_.cut(part.weight->bytes, row_cols / kMxfp4PerByte, rows, packed);
        return fill_scales(*part.scale, rows, cols, row_cols, {1, kMxfp4Group}, matrix);
      }
      case WeightFormat::fp8_block: {
        matrix.values = scratch_.cut(part.weight->bytes, row_cols, rows, cols);
        return fill_scales(*part.scale, rows, cols, row_cols, survey_.block, matrix);
      }
    }
    return {};
  }

  Status fill_scales(const TensorView& scale, Run rows, Run cols, uint64_t row_cols, ScaleBlock block,
                     WeightMatrix& matrix) const {
    matrix.block_rows = block.rows;
    matrix.block_cols = block.cols;
    const uint64_t element_bytes = num_bits(scale.dtype) / 8;
    const uint64_t row_bytes = blocks_of({0, row_cols}, block.cols).count * element_bytes;
    const std::span<const std::byte> bytes = scratch_.cut(scale.bytes, row_bytes, blocks_of(rows, block.rows),
                                                          scaled(blocks_of(cols, block.cols), element_bytes));
    if (element_bytes == sizeof(E8m0)) {
      matrix.scales = std::span<const E8m0>(reinterpret_cast<const E8m0*>(bytes.data()), bytes.size());
      return {};
    }
    Result<TensorValues<float>> values = float_values(scale, bytes);
    if (!values.ok()) return values.status();
    matrix.scales = scratch_.keep(*std::move(values));
    return {};
  }

  std::shared_ptr<const void> owner_;
  const LayerSurvey& survey_;
  TensorValues<float> gate_;
  TensorValues<float> logit_bias_;
  TensorValues<float> selection_bias_;
  mutable Scratch scratch_;
};

/// Shared experts stand in one wide expert; the cuts between them must not split a scale block.
Status check_shared_cuts(const LayerSurvey& survey) {
  const LayerShape& shape = survey.info.shape;
  if (shape.num_shared_experts < 2 || !survey.info.shared_format) return {};
  uint32_t grain = 1;
  std::string_view axis = "columns";
  if (*survey.info.shared_format == WeightFormat::mxfp4) grain = kMxfp4Group;
  if (*survey.info.shared_format == WeightFormat::fp8_block) {
    const bool rows_divide = shape.intermediate % survey.block.rows == 0;
    grain = rows_divide ? survey.block.cols : survey.block.rows;
    if (!rows_divide) axis = "rows";
  }
  if (shape.intermediate % grain == 0) return {};
  return invalid_file(
      fmt::format("{}{}: intermediate must be a multiple of the {} scale {} to be cut into {} experts",
                  survey.tensors.prefix, survey.tensors.rule->shared, grain, axis, shape.num_shared_experts),
      shape.intermediate, "quantise the shared experts with smaller blocks");
}

}  // namespace

Result<std::unique_ptr<CheckpointLayer>> make_checkpoint_layer(std::shared_ptr<const void> owner,
                                                               const LayerSurvey& survey) {
  const MoeLayerInfo& info = survey.info;
  if (!info.unknown.empty()) {
    return error(
        StatusCode::unsupported,
        fmt::format("layer {} must hold only tensors that {} naming knows", info.layer_idx, to_string(info.naming)),
        fmt::format("{}", fmt::join(info.unknown, ", ")), "convert the checkpoint");
  }
  if (!info.missing.empty()) {
    return invalid_file(fmt::format("layer {} must be complete", info.layer_idx),
                        fmt::format("missing {}", fmt::join(info.missing, ", ")), "add the missing tensors");
  }
  MM_RETURN_IF_ERROR(check_shared_cuts(survey));
  auto layer = std::make_unique<SurveyedLayer>(std::move(owner), survey);
  MM_RETURN_IF_ERROR(layer->load_router());
  return std::unique_ptr<CheckpointLayer>(std::move(layer));
}

}  // namespace megamoe
