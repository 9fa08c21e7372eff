#include "check/bits/bit_inputs.hpp"

#include <fmt/format.h>

#include "host/errors.hpp"
#include "megamoe/checkpoint.hpp"

namespace megamoe::bits {
namespace {

Status check_shape(const LayerShape& wanted, const LayerShape& found, const std::string& path) {
  const auto words = [](const LayerShape& shape) {
    return fmt::format("hidden {}, intermediate {}, {} experts", shape.hidden, shape.intermediate, shape.num_experts);
  };
  const bool is_equal = wanted.hidden == found.hidden && wanted.intermediate == found.intermediate &&
                        wanted.num_experts == found.num_experts &&
                        wanted.num_shared_experts <= found.num_shared_experts;
  if (is_equal) return {};
  return invalid_file(fmt::format("{} must have a layer of {}", path, words(wanted)), words(found),
                      "use the tiny model that comes with the project");
}

/// A tensor of the probe with enough rows. Errors: invalid_file.
Result<TensorView> find_rows(const SafeTensors& probe, const std::string& name, uint64_t num_rows, uint64_t num_cols) {
  const TensorView* tensor = probe.find(name);
  const bool fits =
      tensor != nullptr && tensor->shape.size() == 2 && tensor->shape[0] >= num_rows && tensor->shape[1] == num_cols;
  if (fits) return *tensor;
  return invalid_file(fmt::format("{} must hold {} [{} or more, {}]", probe.origin(), name, num_rows, num_cols),
                      tensor == nullptr ? std::string("none") : describe(*tensor),
                      "use the tiny model that comes with the project");
}

}  // namespace

Result<BitInputs> BitInputs::make(const BitCase& bit_case, const std::string& model_folder) {
  BitInputs inputs(bit_case);
  if (bit_case.model) {
    MM_RETURN_IF_ERROR(inputs.read_model(model_folder));
  } else {
    inputs.weights_ = std::make_unique<SyntheticWeights>(bit_case.weights);
    inputs.batch_.emplace(bit_case.input, bit_case.num_tokens());
  }
  return inputs;
}

Status BitInputs::read_model(const std::string& model_folder) {
  const ModelTokens& model = *case_.model;
  const LayerShape& shape = case_.config.shape;
  const std::string path = model_folder + "/fp8.safetensors";
  const auto checkpoint = Checkpoint::open(path);
  MM_RETURN_IF_ERROR(checkpoint.status());
  auto layer = checkpoint->layer(model.layer_idx);
  MM_RETURN_IF_ERROR(layer.status());
  MM_RETURN_IF_ERROR(check_shape(shape, (*layer)->info().shape, path));
  weights_ = *std::move(layer);

  auto probe = SafeTensors::open(model_folder + "/probe.safetensors");
  MM_RETURN_IF_ERROR(probe.status());
  probe_file_ = *std::move(probe);
  const auto find = [&](std::string_view name, uint64_t num_cols) {
    return find_rows(*probe_file_, fmt::format("layers.{}.{}", model.layer_idx, name),
                     uint64_t{model.first_token} + case_.num_tokens(), num_cols);
  };
  const auto x = find("x", shape.hidden);
  const auto ids = find("topk_idx", shape.top_k);
  const auto weights = find("topk_weights", shape.top_k);
  for (const auto* tensor : {&x, &ids, &weights}) MM_RETURN_IF_ERROR(tensor->status());
  auto x_values = bf16_values(*x);
  auto id_values = int64_values(*ids);
  auto weight_values = float_values(*weights);
  MM_RETURN_IF_ERROR(x_values.status());
  MM_RETURN_IF_ERROR(id_values.status());
  MM_RETURN_IF_ERROR(weight_values.status());
  tokens_ = {*std::move(x_values), *std::move(id_values), *std::move(weight_values), model.first_token};
  return {};
}

RankInput BitInputs::slice(uint32_t first, uint32_t count) const {
  if (batch_) return batch_->slice(first, count);
  const LayerShape& shape = case_.config.shape;
  const auto rows = [&](const auto& values, size_t num_cols) {
    return values.values().subspan((size_t{tokens_.first_token} + first) * num_cols, count * num_cols);
  };
  RankInput input;
  input.num_tokens = count;
  input.x = rows(tokens_.x, shape.hidden);
  input.topk_ids = rows(tokens_.ids, shape.top_k);
  input.topk_weights = rows(tokens_.weights, shape.top_k);
  return input;
}

std::vector<RankInput> BitInputs::ranks() const {
  std::vector<RankInput> inputs;
  uint32_t first = 0;
  for (const uint32_t count : case_.tokens_per_rank) {
    inputs.push_back(slice(first, count));
    first += count;
  }
  return inputs;
}

Result<ReferenceRows> BitInputs::reference() const {
  return reference_rows(case_.config, *weights_, slice(0, case_.num_tokens()), ProductSums::fp8_tensor_core);
}

}  // namespace megamoe::bits
