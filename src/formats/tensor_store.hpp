#pragma once

// All tensors of a checkpoint, whatever number of files they stand in.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.hpp"
#include "megamoe/status.hpp"

namespace megamoe {

/// A model.safetensors.index.json that has been checked for form.
struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::string shard;  ///< a file name in the index's folder: no path
  };
  std::vector<Entry> entries;       ///< in tensor order
  std::vector<std::string> shards;  ///< each once, in name order
};

/// Errors: invalid_file (JSON, no weight_map, a shard name that leaves the folder).
Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view origin);

class TensorStore {
 public:
  /// `path` is a .safetensors file, an index, or a folder that holds model.safetensors.index.json, model.safetensors or
  /// exactly one .safetensors file. Errors: not_found, invalid_file.
  static Result<TensorStore> open(const std::string& path);

  /// Of all shards, in name order. The pointers stay valid when the store is moved.
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  /// Data bytes of all tensors.
  uint64_t num_bytes() const { return num_bytes_; }
  /// Folder that the files stand in.
  const std::string& folder() const { return folder_; }

 private:
  TensorStore() = default;
  Status add(Result<SafeTensors> shard);
  Status open_index(const std::string& path);
  Status finish();

  std::string folder_;
  std::vector<SafeTensors> shards_;
  std::vector<const TensorView*> tensors_;
  uint64_t num_bytes_ = 0;
};

}  // namespace megamoe
