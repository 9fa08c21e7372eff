#pragma once

#include <cstdint>

namespace megamoe::emu {

/// The source line that called a layer function: std::source_location, for compilers that lack it (clang 14).
class Where {
 public:
  constexpr Where() = default;
  /// As a default argument: the line of the call that left it out.
  static constexpr Where current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    Where where;
    where.file_ = file;
    where.line_ = line;
    return where;
  }

  constexpr const char* file_name() const { return file_; }
  constexpr uint32_t line() const { return line_; }

 private:
  const char* file_ = "";
  uint32_t line_ = 0;
};

}  // namespace megamoe::emu
