#pragma once

// Writing a file so that its readers find the old one or the new one, never a part.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "megamoe/status.hpp"

namespace megamoe {

/// A file under a temporary name beside `target`, which vanishes unless it is committed. Errors of all functions:
/// invalid_argument, with the system's words.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string target) : target_(std::move(target)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  Status create();
  /// REQUIRES create() succeeded.
  Status write(std::span<const std::byte> bytes);
  /// Makes the file durable and gives it its name. REQUIRES create() succeeded.
  Status commit();

 private:
  Status failure(std::string_view rule) const;

  std::string target_;
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace megamoe
