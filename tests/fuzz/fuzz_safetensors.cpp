// Any bytes as a safetensors file: the reader must refuse or give views that lie inside the bytes.

#include <cstdint>
#include <cstdlib>
#include <span>

#include "formats/safetensors.hpp"
#include "formats/tensor_values.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const megamoe::Result<megamoe::SafeTensors> file = megamoe::SafeTensors::parse(bytes, "fuzz");
  if (!file.ok()) {
    require(file.status().code() == megamoe::StatusCode::invalid_file && !file.status().message().empty());
    return 0;
  }
  uint64_t num_bytes = 0;
  for (const megamoe::TensorView& tensor : file->tensors()) {
    require(file->find(tensor.name) == &tensor);
    require(tensor.bytes.data() >= bytes.data() && tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + size);
    require(*megamoe::tensor_bytes(tensor.dtype, tensor.shape, "fuzz") == tensor.bytes.size());
    num_bytes += tensor.bytes.size();
    // Whatever the address, elements are read aligned: the sanitizer watches.
    if (const auto values = megamoe::float_values(tensor); values.ok()) {
      for (const float& value : values->values()) require(reinterpret_cast<uintptr_t>(&value) % alignof(float) == 0);
    }
    if (const auto values = megamoe::int64_values(tensor); values.ok()) {
      require(values->values().size() <= tensor.bytes.size());
    }
  }
  require(num_bytes <= size);
  return 0;
}
