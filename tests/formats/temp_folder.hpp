#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace megamoe {

/// A fresh folder that goes with its object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "megamoe-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code failure;
    if (!path_.empty()) std::filesystem::remove_all(path_, failure);
  }

  std::string operator/(std::string_view name) const { return (std::filesystem::path(path_) / name).string(); }
  const std::string& path() const { return path_; }

  void write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  }

 private:
  std::string path_;
};

}  // namespace megamoe
