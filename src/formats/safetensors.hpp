#pragma once

// Safetensors files: 8 bytes little-endian header length, a JSON header, the data. The reader believes nothing that it
// has not checked; the writer leaves either a whole file or none.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.hpp"
#include "megamoe/status.hpp"

namespace megamoe {

class MappedFile;

/// One tensor, row-major. `bytes` points into the file (or into the caller's memory when writing) and may stand at any
/// address: read elements through tensor_values.hpp.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// "F32 [2, 3]", for messages.
std::string describe(const TensorView& tensor);

/// Free text that a file carries beside its tensors.
using TensorMetadata = std::map<std::string, std::string>;

/// Header and tensors of one file.
class SafeTensors {
 public:
  /// Maps and validates a file. Errors: not_found; invalid_file (names file, tensor, rule, value, remedy).
  static Result<SafeTensors> open(const std::string& path);
  /// Validates a file that is already in memory; `bytes` must outlive the result. `origin` stands in messages.
  static Result<SafeTensors> parse(std::span<const std::byte> bytes, std::string origin);

  /// In name order.
  std::span<const TensorView> tensors() const { return tensors_; }
  /// Null if there is none of that name.
  const TensorView* find(std::string_view name) const;
  const TensorMetadata& metadata() const { return metadata_; }
  const std::string& origin() const { return origin_; }

 private:
  SafeTensors() = default;
  std::string origin_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<TensorView> tensors_;
  TensorMetadata metadata_;
};

/// Writes a file: first to a temporary one beside `path`, then renamed over it. Elements are aligned to their size.
/// Errors: invalid_argument (bytes do not fit the shape, a repeated or reserved name, file system).
Status write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                         const TensorMetadata& metadata = {});

/// Bytes of a tensor. Errors: invalid_file (overflow; packed elements that do not fill whole bytes).
Result<uint64_t> tensor_bytes(Dtype dtype, std::span<const uint64_t> shape, std::string_view what);

}  // namespace megamoe
