#include "tokens_file.hpp"

#include <fmt/format.h>

#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {
namespace {

constexpr uint64_t kMaxTokens = uint64_t{1} << 24;

/// "layers.N.NAME" before "NAME"; null if there is neither.
const TensorView* find(const SafeTensors& file, uint32_t layer_idx, std::string_view name) {
  const TensorView* tensor = file.find(fmt::format("layers.{}.{}", layer_idx, name));
  return tensor != nullptr ? tensor : file.find(name);
}

Status check_shape(const SafeTensors& file, const TensorView& tensor, uint64_t num_rows, uint64_t num_cols) {
  if (tensor.shape.size() == 2 && tensor.shape[0] == num_rows && tensor.shape[1] == num_cols) return {};
  return invalid_file(fmt::format("{}: {} must be [{}, {}] to fit x", file.origin(), tensor.name, num_rows, num_cols),
                      describe(tensor), "store one row per token");
}

Status read_x(uint32_t layer_idx, TokenFile& tokens) {
  const TensorView* x = find(tokens.file, layer_idx, "x");
  if (x == nullptr) {
    return error(StatusCode::not_found, fmt::format("{} must hold layers.{}.x or x", tokens.path, layer_idx),
                 fmt::format("{} other tensors", tokens.file.tensors().size()),
                 "store the token rows as BF16 [tokens, hidden] under one of these names");
  }
  if (x->shape.size() != 2 || x->shape[0] > kMaxTokens || x->shape[1] == 0 || x->shape[1] > UINT32_MAX) {
    return invalid_file(
        fmt::format("{}: {} must be [tokens, hidden] with at most {} tokens", tokens.path, x->name, kMaxTokens),
        describe(*x), "store one row per token");
  }
  tokens.num_tokens = static_cast<uint32_t>(x->shape[0]);
  tokens.hidden = static_cast<uint32_t>(x->shape[1]);
  Result<TensorValues<Bf16>> values = bf16_values(*x);
  if (!values) return values.status();
  tokens.x = *std::move(values);
  return {};
}

Status read_routing(uint32_t layer_idx, TokenFile& tokens) {
  const TensorView* ids = find(tokens.file, layer_idx, "topk_idx");
  const TensorView* weights = find(tokens.file, layer_idx, "topk_weights");
  if (ids == nullptr && weights == nullptr) return {};
  if (ids == nullptr || weights == nullptr) {
    return invalid_file(fmt::format("{} must hold topk_idx and topk_weights, or neither", tokens.path),
                        ids != nullptr ? "topk_idx alone" : "topk_weights alone",
                        "store both, or leave both out to use the layer's router");
  }
  if (ids->shape.size() != 2 || ids->shape[1] == 0 || ids->shape[1] > 32) {
    return invalid_file(fmt::format("{}: {} must be [tokens, k] with k from 1 to 32", tokens.path, ids->name),
                        describe(*ids), "store one row of expert ids per token");
  }
  MM_RETURN_IF_ERROR(check_shape(tokens.file, *ids, tokens.num_tokens, ids->shape[1]));
  MM_RETURN_IF_ERROR(check_shape(tokens.file, *weights, tokens.num_tokens, ids->shape[1]));
  Result<TensorValues<int64_t>> id_values = int64_values(*ids);
  if (!id_values) return id_values.status();
  Result<TensorValues<float>> weight_values = float_values(*weights);
  if (!weight_values) return weight_values.status();
  tokens.top_k = static_cast<uint32_t>(ids->shape[1]);
  tokens.ids = *std::move(id_values);
  tokens.weights = *std::move(weight_values);
  return {};
}

Status read_stored(uint32_t layer_idx, WeightFormat format, TokenFile& tokens) {
  const TensorView* y = find(tokens.file, layer_idx, fmt::format("y_{}", to_string(format)));
  if (y == nullptr) return {};
  MM_RETURN_IF_ERROR(check_shape(tokens.file, *y, tokens.num_tokens, tokens.hidden));
  Result<TensorValues<float>> values = float_values(*y);
  if (!values) return values.status();
  tokens.stored = StoredOutputs{.name = y->name, .y = *std::move(values)};
  return {};
}

}  // namespace

Result<TokenFile> read_token_file(const std::string& path, uint32_t layer_idx, WeightFormat format) {
  Result<SafeTensors> file = SafeTensors::open(path);
  if (!file) return file.status();
  TokenFile tokens{*std::move(file)};
  tokens.path = path;
  MM_RETURN_IF_ERROR(read_x(layer_idx, tokens));
  MM_RETURN_IF_ERROR(read_routing(layer_idx, tokens));
  MM_RETURN_IF_ERROR(read_stored(layer_idx, format, tokens));
  return tokens;
}

}  // namespace megamoe::cli
