#include "tiny_model.hpp"

#include <fmt/format.h>

#include <vector>

#include "host/errors.hpp"

namespace megamoe::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> places() {
  std::vector<fs::path> found{fs::path("data") / "tiny-moe"};
  std::error_code failure;
  const fs::path self = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    const fs::path bin = self.parent_path();
    found.push_back(bin.parent_path().parent_path().parent_path() / "data" / "tiny-moe");
    found.push_back(bin.parent_path() / "share" / "megamoe" / "tiny-moe");
  }
  found.push_back(fs::path(MM_SOURCE_DIR) / "data" / "tiny-moe");
  return found;
}

}  // namespace

Result<fs::path> find_tiny_model(const std::string& given) {
  if (!given.empty()) return fs::path(given);
  std::string tried;
  for (const fs::path& place : places()) {
    std::error_code failure;
    if (fs::exists(place / "probe.safetensors", failure)) return place;
    tried += fmt::format("{}{}", tried.empty() ? "none in " : ", ", place.string());
  }
  return error(StatusCode::not_found, "the tiny model's probe.safetensors must be found", tried,
               "run from the project's folder, or name the model's folder with --data");
}

}  // namespace megamoe::cli
