#include "formats/weight_form.hpp"

#include <algorithm>
#include <bit>

#include "formats/quote.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

uint64_t ceil_div(uint64_t value, uint64_t divisor) { return value / divisor + (value % divisor != 0 ? 1 : 0); }

Status wrong_form(const TensorView& weight, std::string_view wanted) {
  return invalid_file(fmt::format("tensor {} must be {}", quote_name(weight.name), wanted), describe(weight),
                      "convert the checkpoint");
}

Result<WeightForm> stacked_form(const ProjectionTensors& part) {
  const TensorView& weight = *part.weight;
  const std::vector<uint64_t>& shape = weight.shape;
  if (part.is_transposed) {
    if (weight.dtype != Dtype::bf16 || shape.size() != 3) return wrong_form(weight, "BF16 [experts, columns, rows]");
    return WeightForm{WeightFormat::bf16, shape[0], shape[2], shape[1]};
  }
  if (weight.dtype != Dtype::u8 || shape.size() != 4 || shape[3] != kMxfp4BlockBytes) {
    return wrong_form(weight, fmt::format("U8 [experts, rows, columns / {}, {}]", kMxfp4Group, kMxfp4BlockBytes));
  }
  return WeightForm{WeightFormat::mxfp4, shape[0], shape[1], shape[2] * kMxfp4Group};
}

}  // namespace

Result<WeightForm> weight_form(const ProjectionTensors& part, ExpertStorage storage) {
  if (storage == ExpertStorage::stacked) return stacked_form(part);
  const TensorView& weight = *part.weight;
  if (weight.shape.size() != 2) return wrong_form(weight, "a matrix [rows, columns]");
  WeightForm form{WeightFormat::bf16, 1, weight.shape[0], weight.shape[1]};
  switch (weight.dtype) {
    case Dtype::bf16: break;
    case Dtype::f8_e4m3: form.format = WeightFormat::fp8_block; break;
    case Dtype::f4: form.format = WeightFormat::mxfp4; break;
    case Dtype::i8:
    case Dtype::u8:
      form.format = WeightFormat::mxfp4;
      form.num_cols *= kMxfp4PerByte;
      break;
    default: return wrong_form(weight, "F8_E4M3, packed e2m1 (I8, U8 or F4) or BF16");
  }
  return form;
}

std::vector<uint64_t> scale_shape(const WeightForm& form, ExpertStorage storage, ScaleBlock block) {
  if (form.format == WeightFormat::bf16) return {};
  const ScaleBlock covered = form.format == WeightFormat::mxfp4 ? ScaleBlock{1, kMxfp4Group} : block;
  std::vector<uint64_t> shape{ceil_div(form.num_rows, covered.rows), ceil_div(form.num_cols, covered.cols)};
  if (storage == ExpertStorage::stacked) shape.insert(shape.begin(), form.num_experts);
  return shape;
}

void BlockGuess::narrow(uint64_t extent, uint64_t num_scales) {
  if (extent == 0 || num_scales == 0 || num_scales > extent) {
    max_ = 0;
    return;
  }
  min_ = std::max(min_, ceil_div(extent, num_scales));
  if (num_scales > 1) max_ = std::min(max_, ceil_div(extent, num_scales - 1) - 1);
}

std::optional<uint32_t> BlockGuess::block() const {
  if (min_ > max_) return std::nullopt;
  const uint64_t power = std::bit_ceil(min_);
  const bool is_certain = power == min_ || max_ == kUnbounded;
  return is_certain ? std::optional(static_cast<uint32_t>(power)) : std::nullopt;
}

std::string BlockGuess::range() const { return min_ > max_ ? "none" : fmt::format("{}..{}", min_, max_); }

}  // namespace megamoe
