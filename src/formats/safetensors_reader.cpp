#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/mapped_file.hpp"
#include "formats/quote.hpp"
#include "formats/safetensors.hpp"
#include "formats/strict_json.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxRank = 8;
constexpr std::string_view kRewrite = "download or write the file again";
constexpr std::string_view kMetadataKey = "__metadata__";

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// A list of at most `max_count` unsigned integers; nothing otherwise.
std::optional<std::vector<uint64_t>> unsigned_list(const json& value, size_t max_count) {
  if (!value.is_array() || value.size() > max_count) return std::nullopt;
  std::vector<uint64_t> list;
  for (const json& element : value) {
    if (!element.is_number_unsigned()) return std::nullopt;
    list.push_back(element.get<uint64_t>());
  }
  return list;
}

/// One entry of the header.
class EntryReader {
 public:
  EntryReader(std::string_view origin, std::string_view name, const json& entry)
      : what_(fmt::format("{}: tensor {}", origin, quote_name(name))), entry_(entry) {}

  Result<TensorView> read(std::string_view name, std::span<const std::byte> data) const {
    MM_RETURN_IF_ERROR(check_keys());
    TensorView tensor;
    tensor.name = name;
    const json& dtype_value = entry_["dtype"];
    const std::optional<Dtype> dtype =
        dtype_value.is_string() ? parse_dtype(dtype_value.get_ref<const std::string&>()) : std::nullopt;
    if (!dtype) return refuse(fmt::format("dtype must be one of {}", dtype_names()), shown(dtype_value), "convert it");
    tensor.dtype = *dtype;

    std::optional<std::vector<uint64_t>> shape = unsigned_list(entry_["shape"], kMaxRank);
    if (!shape) {
      return refuse(fmt::format("shape must be a list of at most {} non-negative integers", kMaxRank),
                    shown(entry_["shape"]), kRewrite);
    }
    tensor.shape = std::move(*shape);

    const Result<Extent> extent = read_extent(tensor, data.size());
    if (!extent.ok()) return extent.status();
    tensor.bytes = data.subspan(extent->begin, extent->end - extent->begin);
    return tensor;
  }

 private:
  Status check_keys() const {
    if (!entry_.is_object()) return refuse("entry must be an object", shown(entry_), kRewrite);
    for (const auto* key : {"dtype", "shape", "data_offsets"}) {
      if (!entry_.contains(key)) return refuse(fmt::format("entry must have {}", key), "none", kRewrite);
    }
    if (entry_.size() > 3) {
      return refuse("entry must have dtype, shape and data_offsets only", shown(entry_), "remove the other keys");
    }
    return {};
  }

  Result<Extent> read_extent(const TensorView& tensor, uint64_t num_data_bytes) const {
    const json& value = entry_["data_offsets"];
    const std::optional<std::vector<uint64_t>> offsets = unsigned_list(value, 2);
    if (!offsets || offsets->size() != 2) {
      return refuse("data_offsets must be two non-negative integers", shown(value), kRewrite);
    }
    const Extent extent{(*offsets)[0], (*offsets)[1]};
    if (extent.begin > extent.end) return refuse("data_offsets must begin before they end", shown(value), kRewrite);
    if (extent.end > num_data_bytes) {
      return refuse(fmt::format("data_offsets must end within the {} data bytes of the file", num_data_bytes),
                    shown(value), "the file is truncated: download it again");
    }
    const Result<uint64_t> num_bytes = tensor_bytes(tensor.dtype, tensor.shape, what_);
    if (!num_bytes.ok()) return num_bytes.status();
    if (extent.end - extent.begin != *num_bytes) {
      return refuse(fmt::format("data_offsets must span the {} bytes of {}", *num_bytes, describe(tensor)),
                    fmt::format("{} bytes", extent.end - extent.begin), kRewrite);
    }
    return extent;
  }

  template <class Value>
  Status refuse(std::string_view rule, const Value& value, std::string_view remedy) const {
    return invalid_file(fmt::format("{}: {}", what_, rule), value, remedy);
  }

  std::string what_;
  const json& entry_;
};

Result<TensorMetadata> read_metadata(std::string_view origin, const json& value) {
  const std::string rule = fmt::format("{}: {} must map strings to strings", origin, kMetadataKey);
  if (!value.is_object()) return invalid_file(rule, shown(value), kRewrite);
  TensorMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return invalid_file(rule, fmt::format("{}: {}", quote_name(key), shown(text)), kRewrite);
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// Every data byte must belong to exactly one tensor.
Status check_coverage(std::string_view origin, std::span<const TensorView> tensors, std::span<const std::byte> data) {
  std::vector<const TensorView*> by_offset;
  by_offset.reserve(tensors.size());
  for (const TensorView& tensor : tensors) by_offset.push_back(&tensor);
  const auto begin_of = [&](const TensorView* tensor) {
    return static_cast<uint64_t>(tensor->bytes.data() - data.data());
  };
  std::sort(by_offset.begin(), by_offset.end(), [&](const TensorView* a, const TensorView* b) {
    return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b) : a->bytes.size() < b->bytes.size();
  });
  uint64_t cursor = 0;
  for (const TensorView* tensor : by_offset) {
    const uint64_t begin = begin_of(tensor);
    if (begin != cursor) {
      const std::string_view fault = begin < cursor ? "overlap" : "leave a hole before";
      return invalid_file(fmt::format("{}: tensors must not {} tensor {}", origin, fault, quote_name(tensor->name)),
                          fmt::format("begin {}, previous end {}", begin, cursor), kRewrite);
    }
    cursor += tensor->bytes.size();
  }
  if (cursor != data.size()) {
    return invalid_file(fmt::format("{}: tensors must cover all {} data bytes", origin, data.size()),
                        fmt::format("{} trailing bytes", data.size() - cursor), kRewrite);
  }
  return {};
}

Result<std::string_view> header_text(std::span<const std::byte> bytes, std::string_view origin) {
  if (bytes.size() < kLengthBytes) {
    return invalid_file(fmt::format("{}: file must be at least {} bytes", origin, kLengthBytes), bytes.size(),
                        "check that this is a safetensors file");
  }
  uint64_t num_header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) num_header_bytes |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (num_header_bytes > kMaxJsonBytes) {
    return invalid_file(fmt::format("{}: header length must be at most {} bytes", origin, kMaxJsonBytes),
                        num_header_bytes, "check that this is a safetensors file");
  }
  if (num_header_bytes > bytes.size() - kLengthBytes) {
    return invalid_file(fmt::format("{}: header must fit into the file of {} bytes", origin, bytes.size()),
                        fmt::format("a header of {} bytes", num_header_bytes),
                        "the file is truncated: download it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, num_header_bytes);
  if (!text.starts_with('{')) {
    return invalid_file(fmt::format("{}: header must begin with '{{'", origin), quote_name(text.substr(0, 8)),
                        "check that this is a safetensors file");
  }
  return text;
}

}  // namespace

std::string describe(const TensorView& tensor) {
  return fmt::format("{} [{}]", to_string(tensor.dtype), fmt::join(tensor.shape, ", "));
}

Result<uint64_t> tensor_bytes(Dtype dtype, std::span<const uint64_t> shape, std::string_view what) {
  uint64_t num_bits_total = num_bits(dtype);
  // A zero makes the product zero whatever stands beside it, overflow included.
  const bool is_empty = std::find(shape.begin(), shape.end(), 0U) != shape.end();
  for (const uint64_t extent : shape) {
    if (!is_empty && __builtin_mul_overflow(num_bits_total, extent, &num_bits_total)) {
      return invalid_file(fmt::format("{}: shape must not overflow 64 bits", what),
                          fmt::format("{}", fmt::join(shape, " x ")), kRewrite);
    }
  }
  if (is_empty) return uint64_t{0};
  if (num_bits_total % 8 != 0) {
    return invalid_file(fmt::format("{}: packed elements must fill whole bytes", what),
                        fmt::format("{} bits", num_bits_total), "pad the last dimension");
  }
  return num_bits_total / 8;
}

Result<SafeTensors> SafeTensors::parse(std::span<const std::byte> bytes, std::string origin) {
  const Result<std::string_view> text = header_text(bytes, origin);
  if (!text.ok()) return text.status();
  const Result<json> header = parse_strict_json(*text, origin);
  if (!header.ok()) return header.status();

  SafeTensors file;
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text->size());
  file.tensors_.reserve(header->size());
  // A JSON object iterates in key order, which is the order that find() needs.
  for (const auto& [name, entry] : header->items()) {
    if (name == kMetadataKey) {
      Result<TensorMetadata> metadata = read_metadata(origin, entry);
      if (!metadata.ok()) return metadata.status();
      file.metadata_ = *std::move(metadata);
      continue;
    }
    Result<TensorView> tensor = EntryReader(origin, name, entry).read(name, data);
    if (!tensor.ok()) return tensor.status();
    file.tensors_.push_back(*std::move(tensor));
  }
  MM_RETURN_IF_ERROR(check_coverage(origin, file.tensors_, data));
  file.origin_ = std::move(origin);
  return file;
}

Result<SafeTensors> SafeTensors::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok()) return mapped.status();
  auto shared = std::make_shared<const MappedFile>(*std::move(mapped));
  Result<SafeTensors> file = parse(shared->bytes(), path);
  if (file.ok()) file->file_ = std::move(shared);
  return file;
}

const TensorView* SafeTensors::find(std::string_view name) const {
  const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorView& tensor, std::string_view key) { return tensor.name < key; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

}  // namespace megamoe
