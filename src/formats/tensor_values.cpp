#include "formats/tensor_values.hpp"

#include "formats/bf16.hpp"
#include "formats/quote.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

Status wrong_dtype(const TensorView& tensor, std::string_view wanted) {
  return invalid_file(fmt::format("tensor {} must be {}", quote_name(tensor.name), wanted), describe(tensor),
                      "convert it");
}

template <class To, class From, class Convert>
TensorValues<To> converted(std::span<const std::byte> bytes, Convert convert) {
  const TensorValues<From> source(bytes);
  std::vector<To> target;
  target.reserve(source.values().size());
  for (const From value : source.values()) target.push_back(convert(value));
  return TensorValues<To>(std::move(target));
}

}  // namespace

Result<TensorValues<float>> float_values(const TensorView& tensor, std::span<const std::byte> bytes) {
  if (tensor.dtype == Dtype::f32) return TensorValues<float>(bytes);
  if (tensor.dtype == Dtype::bf16) {
    return converted<float, uint16_t>(bytes, [](uint16_t bits) { return bf16_to_float(bits); });
  }
  return wrong_dtype(tensor, "F32 or BF16");
}

Result<TensorValues<float>> float_values(const TensorView& tensor) { return float_values(tensor, tensor.bytes); }

Result<TensorValues<Bf16>> bf16_values(const TensorView& tensor) {
  if (tensor.dtype == Dtype::bf16) return TensorValues<Bf16>(tensor.bytes);
  return wrong_dtype(tensor, "BF16");
}

Result<TensorValues<int64_t>> int64_values(const TensorView& tensor) {
  if (tensor.dtype == Dtype::i64) return TensorValues<int64_t>(tensor.bytes);
  if (tensor.dtype == Dtype::i32) {
    return converted<int64_t, int32_t>(tensor.bytes, [](int32_t value) { return int64_t{value}; });
  }
  return wrong_dtype(tensor, "I64 or I32");
}

}  // namespace megamoe
