#pragma once

// The one table of layers and calls for the communication stages of the kernels: who sends how many tokens to which
// experts. Tests run it on the emulated machine, `megamoe check` on a GPU.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cuda/sm90/arguments.hpp"
#include "formats/bf16.hpp"
#include "host/layer_rules.hpp"

namespace megamoe::stages {

using sm90::IdFormat;
using sm90::RowFormat;

/// How a router chooses.
enum class Routing : uint8_t {
  uniform,     ///< any expert, duplicates included
  masked,      ///< half of the choices name no expert
  skewed,      ///< low expert ids far more often
  one_expert,  ///< everybody, in all choices, the last expert
};

struct StageCase {
  const char* name;
  flow::Dims dims;
  Routing routing = Routing::uniform;
  RowFormat row_format = RowFormat::bf16;
  IdFormat id_format = IdFormat::int64;
  flow::ScaleRule scale_rule = flow::ScaleRule::fp32;
  flow::RouterWeightRule weight_rule = flow::RouterWeightRule::before_gemm2;
  uint32_t num_blocks = 2;
  uint32_t num_threads = 64;
  std::vector<std::vector<uint32_t>> num_tokens;  ///< [call][rank]
};

inline LayerRules rules_of(const StageCase& stage_case) {
  LayerRules rules = LayerRules::of(stage_case.dims);
  rules.scale_rule = stage_case.scale_rule;
  rules.weight_rule = stage_case.weight_rule;
  return rules;
}

/// One rank's arguments of one call, in every format.
struct RankData {
  uint32_t num_tokens = 0;
  std::vector<uint16_t> bf16;     // [num_tokens, hidden]
  std::vector<uint8_t> codes;     // [num_tokens, hidden]
  std::vector<float> scales;      // [num_tokens, hidden_groups]
  std::vector<uint8_t> e8m0;      // [num_tokens, hidden_groups]
  std::vector<int64_t> ids;       // [num_tokens, top_k]
  std::vector<int32_t> ids32;     // the same
  std::vector<float> weights;     // [num_tokens, top_k]
  std::vector<uint16_t> partial;  // [num_choices, max_tokens, hidden]
};

inline int64_t choose_expert(const StageCase& layer, std::mt19937_64& random) {
  const uint32_t num_experts = layer.dims.num_experts;
  switch (layer.routing) {
    case Routing::masked:
      if (random() % 2 == 0) return flow::kNoExpert;
      break;
    case Routing::skewed: return static_cast<int64_t>(random() % num_experts * (random() % num_experts) / num_experts);
    case Routing::one_expert: return num_experts - 1;
    case Routing::uniform: break;
  }
  return static_cast<int64_t>(random() % num_experts);
}

inline RankData make_rank_data(const StageCase& layer, uint32_t num_tokens, uint64_t seed) {
  std::mt19937_64 random(seed);
  const flow::Dims& dims = layer.dims;
  RankData data;
  data.num_tokens = num_tokens;
  for (size_t i = 0; i < size_t{num_tokens} * dims.hidden; ++i) {
    // Any bits now and then: NaN, infinities, subnormals.
    const float value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 256.0F;
    data.bf16.push_back(random() % 64 == 0 ? static_cast<uint16_t>(random()) : bf16_from_float(value));
    data.codes.push_back(static_cast<uint8_t>(random()));
  }
  for (size_t i = 0; i < size_t{num_tokens} * dims.hidden_groups(); ++i) {
    data.scales.push_back(static_cast<float>(random() % 1000 + 1) / 512.0F);
    data.e8m0.push_back(static_cast<uint8_t>(random() % 255));
  }
  for (size_t i = 0; i < size_t{num_tokens} * dims.top_k; ++i) {
    data.ids.push_back(choose_expert(layer, random));
    data.ids32.push_back(static_cast<int32_t>(data.ids.back()));
    data.weights.push_back(static_cast<float>(random() % 2000) / 1000.0F - 0.5F);
  }
  for (size_t i = 0; i < size_t{dims.num_choices()} * dims.max_tokens * dims.hidden; ++i) {
    data.partial.push_back(bf16_from_float(static_cast<float>(random() % 4001) / 512.0F - 3.0F));
  }
  return data;
}

/// Small layers of every kind, for the emulated machine and for GPUs.
std::vector<StageCase> stage_cases();
/// Layers and grids of the sizes that GPUs are for.
std::vector<StageCase> large_stage_cases();

}  // namespace megamoe::stages
