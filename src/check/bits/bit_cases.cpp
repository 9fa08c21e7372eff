#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "check/bits/bit_case.hpp"
#include "check/fnv1a.hpp"

namespace megamoe::bits {
namespace {

constexpr std::array kStrategies{Strategy::cooperative, Strategy::pingpong, Strategy::small_batch};

/// What is computed: a case without its strategy.
struct BitLayer {
  std::string name;
  LayerShape shape;
  std::vector<uint32_t> tokens_per_rank;
  ActivationOptions activation{};
  SyntheticWeightSpec weights{};
  SyntheticInputSpec input{};
  std::optional<ModelTokens> model{};
  EmulatedRun emulated{};
};

constexpr MatrixFormat kFp8E8m0{.scale = ScaleType::e8m0};
constexpr ActivationOptions kClamped{.limit = 2.0F, .alpha = 1.702F, .up_offset = 1.0F};

constexpr ActivationOptions at_combine(ActivationScale scale = ActivationScale::fp32) {
  ActivationOptions options;
  options.router_weight = RouterWeightPosition::at_combine;
  options.scale = scale;
  return options;
}

SyntheticInputSpec rows_of(InputType type, RoutingSpec routing = {}, IdType ids = IdType::int64) {
  SyntheticInputSpec input;
  input.type = type;
  input.ids = ids;
  input.routing = std::move(routing);
  return input;
}

RoutingSpec masked(double fraction) {
  RoutingSpec routing;
  routing.masked_fraction = fraction;
  return routing;
}

RoutingSpec zipf(double exponent) {
  RoutingSpec routing;
  routing.kind = RoutingKind::zipf;
  routing.zipf_exponent = exponent;
  return routing;
}

RoutingSpec all_to(uint32_t expert) {
  RoutingSpec routing;
  routing.kind = RoutingKind::one_expert;
  routing.expert = expert;
  return routing;
}

SyntheticInputSpec with_specials(SyntheticInputSpec input, std::vector<SpecialToken> specials) {
  input.specials = std::move(specials);
  return input;
}

/// Shapes, scale groups and tiles that do not come out even.
void add_sizes(std::vector<BitLayer>& layers) {
  layers.push_back({.name = "one_token", .shape = {128, 128, 4, 2, 0}, .tokens_per_rank = {1}});
  layers.push_back({.name = "two_groups", .shape = {256, 128, 8, 2, 0}, .tokens_per_rank = {17}});
  layers.push_back({.name = "hidden_144_intermediate_80", .shape = {144, 80, 4, 2, 0}, .tokens_per_rank = {5, 4}});
  layers.push_back({.name = "hidden_400_intermediate_272",
                    .shape = {400, 272, 5, 3, 0},
                    .tokens_per_rank = {6, 0, 7},
                    .emulated = {.block_m = 32}});
  layers.push_back({.name = "hidden_16_intermediate_16",
                    .shape = {16, 16, 3, 1, 0},
                    .tokens_per_rank = {6, 2, 0, 6},
                    .emulated = {.block_m = 8, .num_blocks = 1}});
  layers.push_back({.name = "top_8_of_16",
                    .shape = {128, 80, 16, 8, 0},
                    .tokens_per_rank = {3, 2, 4, 1},
                    .emulated = {.block_m = 16}});
  layers.push_back({.name = "one_rank_has_all_tokens",
                    .shape = {144, 128, 6, 2, 0},
                    .tokens_per_rank = {0, 0, 12, 0},
                    .emulated = {.block_m = 64}});
}

/// Formats of weights and rows, biases, and what the activation may be asked for.
void add_formats(std::vector<BitLayer>& layers) {
  layers.push_back({.name = "fp8_rows",
                    .shape = {272, 128, 6, 2, 0},
                    .tokens_per_rank = {7, 6},
                    .input = rows_of(InputType::fp8_f32_scales)});
  layers.push_back({.name = "e8m0_weights",
                    .shape = {256, 192, 6, 3, 0},
                    .tokens_per_rank = {9, 4},
                    .weights = {.shape = {}, .routed = kFp8E8m0, .layout = GateUpLayout::concatenated},
                    .emulated = {.block_m = 32, .num_blocks = 3}});
  layers.push_back({.name = "e8m0_everywhere",
                    .shape = {272, 144, 6, 3, 0},
                    .tokens_per_rank = {4, 0, 7},
                    .activation = at_combine(ActivationScale::power_of_two),
                    .weights = {.shape = {}, .routed = kFp8E8m0, .biases = Biases::all, .scale_spread = 6},
                    .input = rows_of(InputType::fp8_e8m0_scales, masked(0.4))});
  layers.push_back({.name = "biases_and_clamp",
                    .shape = {144, 80, 4, 2, 0},
                    .tokens_per_rank = {5, 4},
                    .activation = kClamped,
                    .weights = {.shape = {}, .biases = Biases::all},
                    .emulated = {.block_m = 16}});
  layers.push_back(
      {.name = "gpt_oss",
       .shape = {400, 128, 6, 4, 0},
       .tokens_per_rank = {8},
       .activation = {.limit = 7.0F, .alpha = 1.702F, .up_offset = 1.0F},
       .weights = {.shape = {}, .layout = GateUpLayout::interleaved, .biases = Biases::all, .fill = WeightFill::random},
       .input = rows_of(InputType::bf16, {}, IdType::int32)});
  layers.push_back({.name = "zero_scale_block",
                    .shape = {256, 128, 4, 2, 0},
                    .tokens_per_rank = {6, 3},
                    .weights = {.shape = {}, .fill = WeightFill::zero_block}});
}

/// Who goes where.
void add_routings(std::vector<BitLayer>& layers) {
  RoutingSpec repeated;
  repeated.ids = {1, 1, 2, 2, 2, 1, 0, -1, 3};
  RoutingSpec odd_weights;
  odd_weights.router_weights = {-0.75F, 0.5F, 0.0F, 1.5F, -0.0F, 3.0F, 1e-30F};
  layers.push_back({.name = "one_expert_takes_all",
                    .shape = {144, 80, 3, 2, 0},
                    .tokens_per_rank = {35, 34},
                    .input = rows_of(InputType::bf16, all_to(2))});
  layers.push_back({.name = "one_row_beyond_a_tile",
                    .shape = {128, 16, 4, 1, 0},
                    .tokens_per_rank = {65},
                    .input = rows_of(InputType::fp8_f32_scales, all_to(1)),
                    .emulated = {.block_m = 64}});
  layers.push_back({.name = "zipf",
                    .shape = {144, 128, 8, 2, 0},
                    .tokens_per_rank = {20, 13},
                    .input = rows_of(InputType::bf16, zipf(1.5))});
  layers.push_back({.name = "half_masked",
                    .shape = {128, 128, 6, 4, 0},
                    .tokens_per_rank = {10, 7},
                    .activation = at_combine(),
                    .input = rows_of(InputType::fp8_f32_scales, masked(0.5), IdType::int32),
                    .emulated = {.block_m = 16}});
  layers.push_back({.name = "all_masked",
                    .shape = {128, 80, 4, 2, 0},
                    .tokens_per_rank = {3, 2},
                    .input = rows_of(InputType::bf16, masked(1.0))});
  layers.push_back({.name = "repeated_experts",
                    .shape = {144, 128, 4, 3, 0},
                    .tokens_per_rank = {6, 5},
                    .input = rows_of(InputType::bf16, repeated),
                    .emulated = {.block_m = 8}});
  layers.push_back({.name = "weights_of_any_sign",
                    .shape = {128, 144, 4, 3, 0},
                    .tokens_per_rank = {9},
                    .input = rows_of(InputType::fp8_e8m0_scales, odd_weights)});
  layers.push_back({.name = "shared_experts",
                    .shape = {144, 144, 8, 2, 2},
                    .tokens_per_rank = {9, 6},
                    .activation = at_combine(),
                    .input = rows_of(InputType::bf16, zipf(1.0)),
                    .emulated = {.block_m = 32}});
}

/// Rows that hold more or less than numbers of everyday.
void add_specials(std::vector<BitLayer>& layers) {
  layers.push_back({.name = "nan_and_inf",
                    .shape = {256, 80, 4, 2, 0},
                    .tokens_per_rank = {6, 5},
                    .input = with_specials(rows_of(InputType::bf16),
                                           {{1, SpecialValue::nan}, {4, SpecialValue::inf}, {8, SpecialValue::inf}}),
                    .emulated = {.block_m = 32}});
  layers.push_back({.name = "nan_scale",
                    .shape = {256, 80, 4, 2, 0},
                    .tokens_per_rank = {6, 5},
                    .input = with_specials(rows_of(InputType::fp8_f32_scales), {{2, SpecialValue::nan_scale}}),
                    .emulated = {.block_m = 16}});
  layers.push_back({.name = "zero_tiny_and_huge",
                    .shape = {272, 128, 4, 2, 1},
                    .tokens_per_rank = {5, 4},
                    .input = with_specials(rows_of(InputType::bf16), {{0, SpecialValue::zero_row},
                                                                      {3, SpecialValue::zero_group},
                                                                      {5, SpecialValue::tiny},
                                                                      {7, SpecialValue::huge}})});
}

/// A trained layer on held-out text: loads and numbers as they are in a model.
void add_model(std::vector<BitLayer>& layers) {
  const auto add = [&layers](std::string name, uint32_t num_shared, std::vector<uint32_t> tokens, ModelTokens model) {
    layers.push_back({.name = std::move(name),
                      .shape = {256, 128, 32, 4, num_shared},
                      .tokens_per_rank = std::move(tokens),
                      .model = model,
                      .emulated = {.block_m = 16}});
  };
  add("tiny_model_layer_1", 0, {6}, {.layer_idx = 1, .first_token = 0});
  add("tiny_model_layer_2", 1, {5, 3}, {.layer_idx = 2, .first_token = 100});
}

BitCase make_case(const BitLayer& layer, Strategy strategy) {
  BitCase one;
  one.layer = layer.name;
  one.name = fmt::format("{}/{}", layer.name, to_string(strategy));
  one.config.shape = layer.shape;
  one.config.activation = layer.activation;
  one.config.tuning.strategy = strategy;
  one.config.max_tokens_per_rank = std::max(1U, *std::ranges::max_element(layer.tokens_per_rank));
  one.tokens_per_rank = layer.tokens_per_rank;
  one.weights = layer.weights;
  one.weights.shape = layer.shape;
  one.weights.shared.scale = layer.weights.routed.scale;
  one.input = layer.input;
  one.input.shape = layer.shape;
  one.weights.seed = check::fnv1a(layer.name);
  one.input.seed = ~one.weights.seed;
  one.model = layer.model;
  one.emulated = layer.emulated;
  // Its blocks have one math group's rows.
  if (strategy == Strategy::pingpong) one.emulated.block_m = std::min(one.emulated.block_m, 64U);
  return one;
}

}  // namespace

uint32_t BitCase::num_tokens() const { return std::accumulate(tokens_per_rank.begin(), tokens_per_rank.end(), 0U); }

std::vector<BitCase> bit_cases() {
  std::vector<BitLayer> layers;
  add_sizes(layers);
  add_formats(layers);
  add_routings(layers);
  add_specials(layers);
  add_model(layers);
  std::vector<BitCase> cases;
  for (const BitLayer& layer : layers) {
    for (const Strategy strategy : kStrategies) cases.push_back(make_case(layer, strategy));
  }
  return cases;
}

}  // namespace megamoe::bits
