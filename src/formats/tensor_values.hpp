#pragma once

// Elements of a tensor as C++ values, without a copy where the file allows it.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "formats/safetensors.hpp"
#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// A read-only array that either points into the file or owns a converted or aligned copy.
template <class T>
class TensorValues {
 public:
  TensorValues() = default;
  /// REQUIRES bytes.size() is a multiple of sizeof(T).
  explicit TensorValues(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0) {
      values_ = {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
      return;
    }
    storage_.resize(bytes.size() / sizeof(T));
    std::memcpy(storage_.data(), bytes.data(), bytes.size());
    values_ = storage_;
  }
  explicit TensorValues(std::vector<T> storage) : storage_(std::move(storage)), values_(storage_) {}

  // Moving a vector keeps its elements where they are, so that the span stays right; copying would not.
  TensorValues(TensorValues&&) noexcept = default;
  TensorValues& operator=(TensorValues&&) noexcept = default;

  std::span<const T> values() const { return values_; }

 private:
  std::vector<T> storage_;
  std::span<const T> values_;
};

/// F32 as it stands, BF16 converted. Errors: invalid_file (other dtypes).
Result<TensorValues<float>> float_values(const TensorView& tensor);
/// The same for a part of a tensor; `bytes` lies on element boundaries of `tensor`.
Result<TensorValues<float>> float_values(const TensorView& tensor, std::span<const std::byte> bytes);
/// BF16 as it stands. Errors: invalid_file (other dtypes).
Result<TensorValues<Bf16>> bf16_values(const TensorView& tensor);
/// I64 as it stands, I32 widened. Errors: invalid_file (other dtypes).
Result<TensorValues<int64_t>> int64_values(const TensorView& tensor);

}  // namespace megamoe
