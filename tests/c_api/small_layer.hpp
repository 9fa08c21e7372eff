#pragma once

// A small layer in memory, described once for C and once for C++, so that a test can run it both ways.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "formats/bf16.hpp"
#include "megamoe/megamoe.h"
#include "megamoe/megamoe.hpp"

namespace megamoe::c_api_test {

/// What a case varies; the rest of the layer is fixed.
struct Variant {
  WeightFormat format = WeightFormat::bf16;
  GateUpLayout layout = GateUpLayout::concatenated;
  mm_scale_format scale_format = MM_SCALE_F32;
  mm_x_format x_format = MM_X_BF16;
  mm_id_type id_type = MM_ID_I32;
  uint32_t num_shared_experts = 0;
  bool has_biases = false;
};

inline constexpr uint32_t kNumRanks = 2;
inline constexpr uint32_t kNumTokens = 5;
inline constexpr uint32_t kHidden = 256;
inline constexpr uint32_t kIntermediate = 128;
inline constexpr uint32_t kNumExperts = 5;
inline constexpr uint32_t kTopK = 2;
inline constexpr uint32_t kBlock = 64;

/// Owns every array; the C structs and the C++ views point into it. Not movable once filled.
class SmallLayer {
 public:
  explicit SmallLayer(const Variant& variant) : variant_(variant) {
    for (uint32_t idx = 0; idx < kNumExperts; ++idx) add_expert(c_routed, routed);
    for (uint32_t idx = 0; idx < variant.num_shared_experts; ++idx) add_expert(c_shared, shared);
    make_configs();
    for (uint32_t rank = 0; rank < kNumRanks; ++rank) add_rank();
  }
  SmallLayer(const SmallLayer&) = delete;
  SmallLayer& operator=(const SmallLayer&) = delete;

  mm_layer_config c_config{};
  std::vector<mm_expert_weights> c_routed;
  std::vector<mm_expert_weights> c_shared;
  std::vector<mm_rank_input> c_inputs;

  LayerConfig config;
  std::vector<ExpertWeights> routed;
  std::vector<ExpertWeights> shared;
  std::vector<RankInput> inputs;

 private:
  /// An array of `count` values that stays where it is as long as this object.
  template <class Value>
  std::span<Value> keep(size_t count) {
    std::vector<std::byte>& bytes = storage_.emplace_back((count + 1) * sizeof(Value));
    return {reinterpret_cast<Value*>(bytes.data()), count};
  }

  float next() { return std::uniform_real_distribution<float>(-1.0F, 1.0F)(random_); }

  std::span<const float> make_floats(size_t count) {
    const std::span<float> values = keep<float>(count);
    for (float& value : values) value = next();
    return values;
  }

  void fill_scales(WeightMatrix& matrix, mm_matrix& c_matrix) {
    const size_t count = size_t{(matrix.num_rows + matrix.block_rows - 1) / matrix.block_rows} *
                         ((matrix.num_cols + matrix.block_cols - 1) / matrix.block_cols);
    c_matrix.num_scales = count;
    c_matrix.scale_format = variant_.format == WeightFormat::mxfp4 ? MM_SCALE_E8M0 : variant_.scale_format;
    if (c_matrix.scale_format == MM_SCALE_F32) {
      const std::span<float> scales = keep<float>(count);
      for (float& scale : scales) scale = 0.01F + 0.01F * (next() + 1);
      c_matrix.scales = scales.data();
      matrix.scales = std::span<const float>(scales);
    } else {
      const std::span<E8m0> scales = keep<E8m0>(count);
      for (E8m0& scale : scales) scale.bits = static_cast<uint8_t>(118 + random_() % 4);
      c_matrix.scales = scales.data();
      matrix.scales = std::span<const E8m0>(scales);
    }
  }

  void make_matrix(uint32_t num_rows, uint32_t num_cols, WeightMatrix& matrix, mm_matrix& c_matrix) {
    const size_t count = size_t{num_rows} * num_cols;
    matrix = {variant_.format, num_rows, num_cols, {}, 0, 0, {}};
    if (variant_.format == WeightFormat::bf16) {
      const std::span<Bf16> values = keep<Bf16>(count);
      for (Bf16& value : values) value = Bf16{bf16_from_float(0.1F * next())};
      matrix.values = std::as_bytes(values);
    } else {
      const std::span<uint8_t> values = keep<uint8_t>(variant_.format == WeightFormat::mxfp4 ? count / 2 : count);
      // As e4m3: bit 6 clear, so below 2 and never NaN. As two e2m1: any byte is good.
      const uint8_t mask = variant_.format == WeightFormat::mxfp4 ? 0xFF : 0xBF;
      for (uint8_t& value : values) value = static_cast<uint8_t>(random_()) & mask;
      matrix.values = std::as_bytes(values);
      matrix.block_rows = variant_.format == WeightFormat::mxfp4 ? 1 : kBlock;
      matrix.block_cols = variant_.format == WeightFormat::mxfp4 ? kMxfp4Group : kBlock;
    }
    c_matrix = {};
    if (variant_.format != WeightFormat::bf16) fill_scales(matrix, c_matrix);
    c_matrix.format = static_cast<mm_weight_format>(variant_.format);
    c_matrix.num_rows = num_rows;
    c_matrix.num_cols = num_cols;
    c_matrix.block_rows = matrix.block_rows;
    c_matrix.block_cols = matrix.block_cols;
    c_matrix.values = matrix.values.data();
    c_matrix.values_bytes = matrix.values.size();
  }

  void add_expert(std::vector<mm_expert_weights>& c_experts, std::vector<ExpertWeights>& experts) {
    ExpertWeights expert;
    mm_expert_weights c_expert{};
    c_expert.struct_bytes = sizeof(c_expert);
    expert.layout = variant_.layout;
    c_expert.layout = static_cast<mm_gate_up_layout>(variant_.layout);
    if (variant_.layout == GateUpLayout::separate) {
      make_matrix(kIntermediate, kHidden, expert.gate, c_expert.gate);
      make_matrix(kIntermediate, kHidden, expert.up, c_expert.up);
    } else {
      make_matrix(2 * kIntermediate, kHidden, expert.gate_up, c_expert.gate_up);
    }
    make_matrix(kHidden, kIntermediate, expert.down, c_expert.down);
    if (variant_.has_biases) add_biases(expert, c_expert);
    experts.push_back(expert);
    c_experts.push_back(c_expert);
  }

  void add_biases(ExpertWeights& expert, mm_expert_weights& c_expert) {
    if (variant_.layout == GateUpLayout::separate) {
      expert.gate_bias = make_floats(kIntermediate);
      expert.up_bias = make_floats(kIntermediate);
      c_expert.gate_bias = expert.gate_bias.data();
      c_expert.up_bias = expert.up_bias.data();
    } else {
      expert.gate_up_bias = make_floats(2 * kIntermediate);
      c_expert.gate_up_bias = expert.gate_up_bias.data();
    }
    expert.down_bias = make_floats(kHidden);
    c_expert.down_bias = expert.down_bias.data();
  }

  void make_configs() {
    c_config.struct_bytes = sizeof(c_config);
    c_config.hidden = kHidden;
    c_config.intermediate = kIntermediate;
    c_config.num_experts = kNumExperts;
    c_config.top_k = kTopK;
    c_config.num_shared_experts = variant_.num_shared_experts;
    c_config.max_tokens_per_rank = kNumTokens;
    c_config.limit = 7.0F;
    c_config.alpha = 1.702F;
    c_config.up_offset = 1.0F;
    c_config.threads_per_rank = 1;
    c_config.timeout_ms = 30'000;
    config.shape = {kHidden, kIntermediate, kNumExperts, kTopK, variant_.num_shared_experts};
    config.max_tokens_per_rank = kNumTokens;
    config.activation.limit = 7.0F;
    config.activation.alpha = 1.702F;
    config.activation.up_offset = 1.0F;
    config.tuning.threads_per_rank = 1;
    config.timeout = std::chrono::milliseconds(30'000);
  }

  void make_x(RankInput& input, mm_rank_input& c_input) {
    constexpr uint32_t kNumScales = kNumTokens * ((kHidden + kActivationGroup - 1) / kActivationGroup);
    if (variant_.x_format == MM_X_BF16) {
      const std::span<Bf16> x = keep<Bf16>(size_t{kNumTokens} * kHidden);
      for (Bf16& value : x) value = Bf16{bf16_from_float(next())};
      input.x = std::span<const Bf16>(x);
      c_input.x = x.data();
      return;
    }
    const std::span<Fp8E4m3> x = keep<Fp8E4m3>(size_t{kNumTokens} * kHidden);
    for (Fp8E4m3& value : x) value.bits = static_cast<uint8_t>(random_()) & 0xBF;
    c_input.x = x.data();
    if (variant_.x_format == MM_X_FP8_F32) {
      const std::span<float> scales = keep<float>(kNumScales);
      for (float& scale : scales) scale = 0.5F + 0.1F * next();
      input.x = Fp8Activations{x, std::span<const float>(scales)};
      c_input.x_scales = scales.data();
    } else {
      const std::span<E8m0> scales = keep<E8m0>(kNumScales);
      for (E8m0& scale : scales) scale.bits = static_cast<uint8_t>(125 + random_() % 3);
      input.x = Fp8Activations{x, std::span<const E8m0>(scales)};
      c_input.x_scales = scales.data();
    }
  }

  template <class Id>
  void make_ids(RankInput& input, mm_rank_input& c_input) {
    const std::span<Id> ids = keep<Id>(size_t{kNumTokens} * kTopK);
    for (Id& id : ids) id = static_cast<Id>(random_() % (kNumExperts + 1)) - 1;
    input.topk_ids = std::span<const Id>(ids);
    c_input.topk_ids = ids.data();
  }

  void add_rank() {
    RankInput input;
    mm_rank_input c_input{};
    c_input.struct_bytes = sizeof(c_input);
    input.num_tokens = kNumTokens;
    c_input.num_tokens = kNumTokens;
    c_input.x_format = variant_.x_format;
    make_x(input, c_input);
    c_input.id_type = variant_.id_type;
    if (variant_.id_type == MM_ID_I32) {
      make_ids<int32_t>(input, c_input);
    } else {
      make_ids<int64_t>(input, c_input);
    }
    input.topk_weights = make_floats(size_t{kNumTokens} * kTopK);
    c_input.topk_weights = input.topk_weights.data();
    inputs.push_back(input);
    c_inputs.push_back(c_input);
  }

  Variant variant_;
  std::mt19937 random_{11};
  std::deque<std::vector<std::byte>> storage_;
};

}  // namespace megamoe::c_api_test
