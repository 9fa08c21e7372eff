#pragma once

// Layers and batches made from a seed: `megamoe check`, `megamoe bench` and the tests use them. Every expert and every
// token is made from (seed, index) alone, so any part can be made without the rest.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace megamoe {

// ---------------------------------------------------------------- weights

enum class ScaleType : uint8_t { f32, e8m0 };
enum class Biases : uint8_t { none, all };

/// What the weights hold.
enum class WeightFill : uint8_t {
  random,               ///< outputs of about 1 for inputs of about 1
  constant_per_expert,  ///< every weight of expert e is one number that differs between neighbouring experts
  gate_one_up_two,      ///< gate weights 1, up weights 2, times one power of two; down random
  zero_block,           ///< random, with one scale block of zeros in every matrix
  scale_byte_0,         ///< random, with one scale of 2^-127 in every matrix (E8M0 only)
  scale_byte_1,         ///< random, with one scale of 2^-126 in every matrix (E8M0 only)
  scale_byte_254,       ///< gate and up random with every scale 2^127, for activations with tiny scales (E8M0 only)
  scale_byte_255,       ///< random, with one NaN scale in the down matrix of expert 0 (E8M0 only)
};

/// Storage of one expert's matrices.
struct MatrixFormat {
  WeightFormat format = WeightFormat::fp8_block;
  uint32_t block_rows = 128;         ///< fp8_block only
  uint32_t block_cols = 128;         ///< fp8_block only
  ScaleType scale = ScaleType::f32;  ///< fp8_block only
};

struct SyntheticWeightSpec {
  LayerShape shape;
  MatrixFormat routed{};
  MatrixFormat shared{};
  GateUpLayout layout = GateUpLayout::separate;  ///< of the routed experts
  GateUpLayout shared_layout = GateUpLayout::separate;
  Biases biases = Biases::none;
  WeightFill fill = WeightFill::random;  ///< of the routed experts; shared ones are random
  /// E8M0 scales of neighbouring blocks differ by up to 2^scale_spread.
  uint32_t scale_spread = 2;
  uint64_t seed = 1;
};

/// Makes one expert at a time; a view stays valid until the next call.
class SyntheticWeights final : public WeightSource {
 public:
  explicit SyntheticWeights(const SyntheticWeightSpec& spec);
  ~SyntheticWeights() override;
  SyntheticWeights(const SyntheticWeights&) = delete;
  SyntheticWeights& operator=(const SyntheticWeights&) = delete;

  Result<ExpertWeights> routed(uint32_t expert_idx) const override;
  Result<ExpertWeights> shared(uint32_t shared_idx) const override;
  /// Bytes of values and scales of one routed expert, as stored.
  uint64_t routed_expert_bytes() const;

 private:
  struct Buffers;
  SyntheticWeightSpec spec_;
  std::unique_ptr<Buffers> buffers_;  // the one expert that is out
};

// ---------------------------------------------------------------- inputs

enum class InputType : uint8_t { bf16, fp8_f32_scales, fp8_e8m0_scales };
enum class IdType : uint8_t { int32, int64 };

enum class RoutingKind : uint8_t {
  uniform,       ///< K different experts, all equally likely
  zipf,          ///< K different experts, the r-th most popular with weight r^-exponent
  one_expert,    ///< every choice is expert `expert`
  first_experts  ///< K different experts (if there are so many) of the first `expert` ones
};

struct RoutingSpec {
  RoutingKind kind = RoutingKind::uniform;
  double zipf_exponent = 1.0;
  uint32_t expert = 0;
  double masked_fraction = 0.0;       ///< this share of the choices becomes -1
  std::vector<int64_t> ids;           ///< if not empty: slot s takes ids[s % ids.size()], nothing else above applies
  std::vector<float> router_weights;  ///< if not empty: slot s takes router_weights[s % size]; else positive, sum 1
};

/// "uniform", "zipf:1.2", "one:3" (all to expert 3), "first:8" (among the first 8 experts), "masked:0.5" (uniform with
/// half of the choices -1). Errors: anything else.
Result<RoutingSpec> parse_routing(std::string_view text);

enum class SpecialValue : uint8_t {
  zero_row,    ///< all columns zero
  zero_group,  ///< columns [0, 128) zero
  nan,         ///< one NaN element
  inf,         ///< one +Inf element (FP8: one NaN code, as e4m3 has no infinity)
  nan_scale,   ///< FP8: first scale NaN; BF16: as nan
  tiny,        ///< all columns times 2^-130 (subnormal in BF16 and FP32), FP8 as zero_row
  huge,        ///< columns [0, 128) times 2^20, FP8 through their scale
};

struct SpecialToken {
  uint32_t token_idx = 0;  ///< in the whole batch
  SpecialValue value = SpecialValue::zero_row;
};

struct SyntheticInputSpec {
  LayerShape shape;
  InputType type = InputType::bf16;
  IdType ids = IdType::int32;
  RoutingSpec routing;
  std::vector<SpecialToken> specials;
  float mean = 0.0F;  ///< of the activations; their standard deviation is 1
  /// fp8_e8m0_scales: scale bytes 0 and 1 in turn, with codes of about 1/8 (WeightFill::scale_byte_254 undoes them).
  bool tiny_e8m0_scales = false;
  uint64_t seed = 1;
};

/// The tokens of all ranks of one call, one after the other; each rank's input is a slice.
class SyntheticBatch {
 public:
  SyntheticBatch(const SyntheticInputSpec& spec, uint32_t num_tokens);

  uint32_t num_tokens() const { return num_tokens_; }
  /// Tokens [first, first + count); views into this batch. REQUIRES first + count <= num_tokens().
  RankInput slice(uint32_t first, uint32_t count) const;
  RankInput all() const { return slice(0, num_tokens_); }
  /// Consecutive slices of the given sizes. REQUIRES their sum is num_tokens().
  std::vector<RankInput> split(const std::vector<uint32_t>& tokens_per_rank) const;
  /// Expert id of slot token * K + k.
  int64_t id(uint64_t slot) const { return ids64_[slot]; }

 private:
  void fill_activations(const SyntheticInputSpec& spec);
  void fill_routing(const SyntheticInputSpec& spec);

  LayerShape shape_;
  uint32_t num_tokens_ = 0;
  InputType type_ = InputType::bf16;
  IdType id_type_ = IdType::int32;
  std::vector<Bf16> x_;                // [T, H]
  std::vector<Fp8E4m3> codes_;         // [T, H]
  std::vector<float> f32_scales_;      // [T, ceil(H / 128)]
  std::vector<E8m0> e8m0_scales_;      // [T, ceil(H / 128)]
  std::vector<int32_t> ids32_;         // [T, K]
  std::vector<int64_t> ids64_;         // [T, K]
  std::vector<float> router_weights_;  // [T, K]
};

}  // namespace megamoe
