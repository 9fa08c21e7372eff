#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/quote.hpp"
#include "formats/safetensors.hpp"
#include "formats/strict_json.hpp"
#include "formats/temporary_file.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

using nlohmann::json;

Status check_tensors(std::span<const TensorView> tensors) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      return invalid_argument("a tensor must not be named __metadata__", quote_name(tensor.name), "rename it");
    }
    if (!names.insert(tensor.name).second) {
      return invalid_argument("tensor names must differ", quote_name(tensor.name), "rename one of them");
    }
    const Result<uint64_t> num_bytes = tensor_bytes(tensor.dtype, tensor.shape, quote_name(tensor.name));
    if (!num_bytes.ok()) return num_bytes.status();
    if (*num_bytes != tensor.bytes.size()) {
      return invalid_argument(
          fmt::format("tensor {} must hold the {} bytes of {}", quote_name(tensor.name), *num_bytes, describe(tensor)),
          fmt::format("{} bytes", tensor.bytes.size()), "pass all of its bytes");
    }
  }
  return {};
}

/// Wide elements first: behind an 8-byte aligned header every tensor is then aligned to its element.
std::vector<const TensorView*> data_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const uint32_t a_bits = num_bits(a->dtype);
    const uint32_t b_bits = num_bits(b->dtype);
    return a_bits != b_bits ? a_bits > b_bits : a->name < b->name;
  });
  return order;
}

Result<std::string> header_of(std::span<const TensorView* const> order, const TensorMetadata& metadata) try {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    const uint64_t end = offset + tensor->bytes.size();
    header[tensor->name] = {
        {"dtype", to_string(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
} catch (const json::exception&) {
  return invalid_argument("tensor names and metadata must be UTF-8", "other bytes", "rename the tensors");
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const TensorView> tensors, const TensorMetadata& metadata) {
  MM_RETURN_IF_ERROR(check_tensors(tensors));
  const std::vector<const TensorView*> order = data_order(tensors);
  const Result<std::string> header = header_of(order, metadata);
  if (!header.ok()) return header.status();
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(header->size() >> (8 * i) & 0xFF);

  TemporaryFile file(path);
  MM_RETURN_IF_ERROR(file.create());
  MM_RETURN_IF_ERROR(file.write(length));
  MM_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(*header))));
  for (const TensorView* tensor : order) MM_RETURN_IF_ERROR(file.write(tensor->bytes));
  return file.commit();
}

}  // namespace megamoe
