#pragma once

// Token files: the safetensors files that `megamoe run --tokens` reads. For layer N, each tensor may be called
// "layers.N.NAME" or just "NAME"; NAME is one of
//   x             BF16 [T, H]         what the layer takes (after the block's norm)
//   topk_idx      I64 or I32 [T, K]   expert ids; with topk_weights F32 [T, K]; both or neither
//   y_fp8, y_mxfp4, y_bf16            F32 [T, H]: outputs to compare with, of the routed experts alone

#include <cstdint>
#include <optional>
#include <string>

#include "formats/tensor_values.hpp"
#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe::cli {

/// Stored outputs of the routed experts.
struct StoredOutputs {
  std::string name;       ///< the tensor's: "layers.1.y_fp8"
  TensorValues<float> y;  ///< [num_tokens, hidden]
};

/// What a token file holds for one layer.
struct TokenFile {
  std::string path;
  uint32_t num_tokens = 0;
  uint32_t hidden = 0;
  uint32_t top_k = 0;                   ///< 0 when the file has no routing
  TensorValues<Bf16> x;                 ///< [num_tokens, hidden]
  TensorValues<int64_t> ids;            ///< [num_tokens, top_k]; empty without routing
  TensorValues<float> weights;          ///< [num_tokens, top_k]; empty without routing
  std::optional<StoredOutputs> stored;  ///< those for the format that was asked for

  explicit TokenFile(SafeTensors mapped) : file(std::move(mapped)) {}
  SafeTensors file;  ///< the values above point into it
};

/// Reads what `path` holds for layer `layer_idx`; stored outputs are those of `format`.
/// Errors: not_found (no x), invalid_file (types and shapes that do not fit together).
Result<TokenFile> read_token_file(const std::string& path, uint32_t layer_idx, WeightFormat format);

}  // namespace megamoe::cli
