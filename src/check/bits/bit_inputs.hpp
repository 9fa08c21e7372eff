#pragma once

// Weights and tokens of a bit case: made from its seed, or read from the tiny real model.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check/bits/bit_case.hpp"
#include "formats/tensor_values.hpp"
#include "reference/reference.hpp"

namespace megamoe::bits {

class BitInputs {
 public:
  /// `model_folder` holds the tiny real model (fp8.safetensors, config.json, probe.safetensors); cases that are not of
  /// it do not look there. Errors: not_found, invalid_file.
  static Result<BitInputs> make(const BitCase& bit_case, const std::string& model_folder);

  const WeightSource& weights() const { return *weights_; }
  /// [num_ranks]; views into this object.
  std::vector<RankInput> ranks() const;
  /// What the FP64 reference says about the batch, rank after rank, for layers that add as Hopper's tensor cores do.
  Result<ReferenceRows> reference() const;

 private:
  /// Tokens of the probe, [num_tokens, ...] from first_token on.
  struct ProbeTokens {
    TensorValues<Bf16> x;
    TensorValues<int64_t> ids;
    TensorValues<float> weights;
    uint32_t first_token = 0;
  };

  explicit BitInputs(const BitCase& bit_case) : case_(bit_case) {}
  Status read_model(const std::string& model_folder);
  RankInput slice(uint32_t first, uint32_t count) const;

  BitCase case_;
  std::unique_ptr<WeightSource> weights_;
  std::optional<SyntheticBatch> batch_;
  std::optional<SafeTensors> probe_file_;  // tokens_ point into it
  ProbeTokens tokens_;
};

}  // namespace megamoe::bits
