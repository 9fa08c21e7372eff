#include "formats/tensor_store.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "formats/mapped_file.hpp"
#include "formats/quote.hpp"
#include "formats/strict_json.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kExtension = ".safetensors";

bool name_before(const TensorView* tensor, std::string_view name) { return tensor->name < name; }

/// The file that a folder means. Errors: not_found, invalid_file (more than one candidate).
Result<std::string> choose_in_folder(const std::string& folder) {
  std::error_code failure;
  for (const std::string_view name : {kIndexName, kSingleName}) {
    const fs::path candidate = fs::path(folder) / name;
    if (fs::exists(candidate, failure)) return candidate.string();
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    if (it->path().extension() == kExtension) names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() == 1) return (fs::path(folder) / names.front()).string();
  const std::string rule =
      fmt::format("{} must hold {}, {} or exactly one {} file", folder, kIndexName, kSingleName, kExtension);
  if (names.empty()) return error(StatusCode::not_found, rule, "none", "name the checkpoint's file");
  return invalid_file(rule, fmt::format("{}", fmt::join(names, ", ")), "name one of these files");
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view origin) {
  const Result<json> root = parse_strict_json(text, origin);
  if (!root.ok()) return root.status();
  const auto weight_map = root->find("weight_map");
  if (weight_map == root->end() || !weight_map->is_object() || weight_map->empty()) {
    return invalid_file(fmt::format("{}: weight_map must map tensor names to shard names", origin),
                        weight_map == root->end() ? "none" : shown(*weight_map), "download the index again");
  }
  ShardIndex index;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map->items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : std::string();
    const bool is_plain = name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!is_plain || name.starts_with('.') || !name.ends_with(kExtension)) {
      return invalid_file(fmt::format("{}: shard of tensor {} must be the plain name of a {} file in the same folder",
                                      origin, quote_name(tensor), kExtension),
                          shown(shard), "put the shards beside the index");
    }
    index.entries.push_back({tensor, name});
    shards.insert(name);
  }
  index.shards.assign(shards.begin(), shards.end());
  return index;
}

Result<TensorStore> TensorStore::open(const std::string& path) {
  std::error_code failure;
  std::string file = path;
  if (fs::is_directory(path, failure)) {
    Result<std::string> chosen = choose_in_folder(path);
    if (!chosen.ok()) return chosen.status();
    file = *std::move(chosen);
  }
  TensorStore store;
  store.folder_ = fs::path(file).parent_path().string();
  MM_RETURN_IF_ERROR(file.ends_with(".json") ? store.open_index(file) : store.add(SafeTensors::open(file)));
  MM_RETURN_IF_ERROR(store.finish());
  return store;
}

Status TensorStore::add(Result<SafeTensors> shard) {
  if (!shard.ok()) return shard.status();
  shards_.push_back(*std::move(shard));
  return {};
}

Status TensorStore::open_index(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  const Result<ShardIndex> index = parse_shard_index(file->text(), path);
  if (!index.ok()) return index.status();

  for (const std::string& shard : index->shards) {
    const std::string shard_path = (fs::path(folder_) / shard).string();
    std::error_code failure;
    if (!fs::exists(shard_path, failure)) {
      return error(StatusCode::not_found, fmt::format("{}: every shard must exist", path), quote_name(shard),
                   "download the missing shard");
    }
    MM_RETURN_IF_ERROR(add(SafeTensors::open(shard_path)));
  }
  for (const ShardIndex::Entry& entry : index->entries) {
    const auto shard = std::lower_bound(index->shards.begin(), index->shards.end(), entry.shard);
    if (shards_[static_cast<size_t>(shard - index->shards.begin())].find(entry.tensor) == nullptr) {
      return invalid_file(
          fmt::format("{}: shard {} must hold tensor {}", path, quote_name(entry.shard), quote_name(entry.tensor)),
          "none of that name", "download index and shards of one revision");
    }
  }
  return {};
}

Status TensorStore::finish() {
  for (const SafeTensors& shard : shards_) {
    for (const TensorView& tensor : shard.tensors()) {
      tensors_.push_back(&tensor);
      num_bytes_ += tensor.bytes.size();
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                       [](const auto* a, const auto* b) { return a->name == b->name; });
  if (twin != tensors_.end()) {
    return invalid_file(fmt::format("{}: a tensor must stand in one shard only", folder_), quote_name((*twin)->name),
                        "remove it from one of them");
  }
  return {};
}

const TensorView* TensorStore::find(std::string_view name) const {
  const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name, name_before);
  return it != tensors_.end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace megamoe
