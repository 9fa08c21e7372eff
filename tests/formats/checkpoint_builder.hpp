#pragma once

// Small synthetic checkpoints, tensor by tensor.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.hpp"
#include "formats/weight_form.hpp"
#include "temp_folder.hpp"

namespace megamoe {

class CheckpointBuilder {
 public:
  /// A tensor whose bytes differ from place to place and from name to name, and are no NaN in any dtype used here.
  void add(const std::string& name, Dtype dtype, std::vector<uint64_t> shape) {
    const uint64_t num_bytes = *tensor_bytes(dtype, shape, name);
    std::vector<std::byte> bytes(num_bytes);
    uint64_t state = std::hash<std::string>{}(name) | 1;
    for (std::byte& byte : bytes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::byte>(state >> 58);
    }
    set(name, dtype, std::move(shape), std::move(bytes));
  }

  template <class T>
  void add(const std::string& name, Dtype dtype, std::vector<uint64_t> shape, const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    set(name, dtype, std::move(shape), std::move(bytes));
  }

  void remove(const std::string& name) { tensors_.erase(name); }
  const std::vector<std::byte>& bytes(const std::string& name) const { return tensors_.at(name).bytes; }

  Status write(const std::string& path) const {
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : tensors_) views.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
    return write_safetensors(path, views);
  }

 private:
  struct Tensor {
    Dtype dtype;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  void set(const std::string& name, Dtype dtype, std::vector<uint64_t> shape, std::vector<std::byte> bytes) {
    tensors_[name] = {dtype, std::move(shape), std::move(bytes)};
  }
  std::map<std::string, Tensor> tensors_;
};

/// Names of one family, written out here a second time on purpose: the test must not follow the table under test.
struct FamilyNames {
  std::string prefix;
  std::array<std::string, 3> projections;  // gate, up, down
  std::string scale;
};
inline FamilyNames deepseek_names(uint32_t layer_idx) {
  return {
      "model.layers." + std::to_string(layer_idx) + ".mlp.", {"gate_proj", "up_proj", "down_proj"}, "weight_scale_inv"};
}
inline FamilyNames v4_names(uint32_t layer_idx) {
  return {"layers." + std::to_string(layer_idx) + ".ffn.", {"w1", "w3", "w2"}, "scale"};
}
inline FamilyNames mixtral_names(uint32_t layer_idx) {
  return {"model.layers." + std::to_string(layer_idx) + ".block_sparse_moe.", {"w1", "w3", "w2"}, "weight_scale_inv"};
}

/// How the weights of an expert are stored.
struct Storage {
  Dtype weight = Dtype::bf16;  // bf16, f8_e4m3 or i8 (packed e2m1)
  Dtype scale = Dtype::f32;
  ScaleBlock block;
};

struct Extents {
  uint64_t hidden;
  uint64_t inner;
};

inline void add_matrix(CheckpointBuilder& file, const std::string& name, const std::string& scale_name,
                       uint64_t num_rows, uint64_t num_cols, const Storage& storage) {
  const uint64_t stored_cols = storage.weight == Dtype::i8 ? num_cols / 2 : num_cols;
  file.add(name + ".weight", storage.weight, {num_rows, stored_cols});
  if (storage.weight == Dtype::bf16) return;
  const ScaleBlock block = storage.weight == Dtype::i8 ? ScaleBlock{1, 32} : storage.block;
  file.add(name + "." + scale_name, storage.scale,
           {(num_rows + block.rows - 1) / block.rows, (num_cols + block.cols - 1) / block.cols});
}

/// gate, up and down below `stem`, "model.layers.1.mlp.experts.0".
inline void add_expert(CheckpointBuilder& file, const FamilyNames& names, const std::string& stem, Extents extents,
                       const Storage& storage) {
  add_matrix(file, stem + "." + names.projections[0], names.scale, extents.inner, extents.hidden, storage);
  add_matrix(file, stem + "." + names.projections[1], names.scale, extents.inner, extents.hidden, storage);
  add_matrix(file, stem + "." + names.projections[2], names.scale, extents.hidden, extents.inner, storage);
}

inline void add_experts(CheckpointBuilder& file, const FamilyNames& names, uint32_t num_experts, Extents extents,
                        const Storage& storage) {
  for (uint32_t expert_idx = 0; expert_idx < num_experts; ++expert_idx) {
    add_expert(file, names, names.prefix + "experts." + std::to_string(expert_idx), extents, storage);
  }
}

}  // namespace megamoe
