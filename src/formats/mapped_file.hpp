#pragma once

// A read-only file mapping.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

/// A whole file, mapped for reading. The mapping outlives moves: its address never changes. As with any mapping, a file
/// that another process truncates meanwhile must not be read further.
class MappedFile {
 public:
  /// Errors: not_found (no such file), invalid_file (not a regular file, empty, unreadable).
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  MappedFile(MappedFile&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace megamoe
