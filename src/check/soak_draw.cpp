#include "check/soak_draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "check/random.hpp"

namespace megamoe::check {
namespace {

constexpr uint32_t kMaxRanks = 8;
constexpr uint32_t kMaxCalls = 24;
constexpr std::array kStrategies = {Strategy::automatic, Strategy::cooperative, Strategy::pingpong,
                                    Strategy::small_batch};

/// Numbers of one stream, one after the other.
class Draw {
 public:
  template <class... Parts>
  explicit Draw(uint64_t seed, Parts... parts) : stream_(seed, parts...) {}

  uint32_t below(uint64_t count) { return static_cast<uint32_t>(stream_.at(position_++) % count); }
  uint32_t from(uint32_t low, uint32_t high) { return low + below(high - low + 1); }
  bool one_in(uint32_t count) { return below(count) == 0; }
  template <class T, size_t kCount>
  T of(const std::array<T, kCount>& values) {
    return values[below(kCount)];
  }

 private:
  Stream stream_;
  uint64_t position_ = 0;
};

bool runs_on_cpu(Backend backend) { return backend == Backend::cpu || backend == Backend::automatic; }

LayerShape draw_shape(Draw& draw) {
  LayerShape shape;
  shape.hidden = 16 * draw.from(1, 40);
  shape.intermediate = 16 * draw.from(1, 24);
  shape.num_experts = draw.from(1, 24);
  shape.top_k = draw.from(1, 8);
  shape.num_shared_experts = draw.one_in(3) ? draw.from(1, 2) : 0;
  return shape;
}

ActivationOptions draw_activation(Draw& draw) {
  ActivationOptions options;
  if (draw.one_in(2)) options.limit = draw.of(std::array{0.75F, 2.0F, 7.0F});
  if (draw.one_in(2)) options.alpha = 1.702F;
  if (draw.one_in(3)) options.up_offset = 1.0F;
  if (draw.one_in(2)) options.router_weight = RouterWeightPosition::at_combine;
  if (draw.one_in(3)) options.scale = ActivationScale::power_of_two;
  return options;
}

SyntheticWeightSpec draw_weights(Draw& draw, const LayerShape& shape, uint64_t seed) {
  SyntheticWeightSpec weights;
  weights.shape = shape;
  weights.seed = seed;
  weights.routed.scale = draw.of(std::array{ScaleType::f32, ScaleType::e8m0});
  weights.shared.scale = draw.of(std::array{ScaleType::f32, ScaleType::e8m0});
  const auto draw_layout = [&draw] { return draw.of(std::array{GateUpLayout::separate, GateUpLayout::interleaved}); };
  weights.layout = draw_layout();
  weights.shared_layout = draw_layout();
  if (draw.one_in(3)) weights.biases = Biases::all;
  if (draw.one_in(8)) weights.fill = WeightFill::zero_block;
  return weights;
}

/// Tuning of the tested layer and of its peer, never the same.
void draw_tunings(Draw& draw, SoakLayer& layer) {
  layer.tested.tuning.experts_per_wave = draw.below(4);
  layer.peer.tuning.experts_per_wave = draw.below(4);
  if (runs_on_cpu(layer.tested.backend)) {
    const uint32_t threads = draw.from(1, 3);
    layer.tested.tuning.threads_per_rank = threads;
    layer.peer.tuning.threads_per_rank = threads % 3 + 1;
    layer.tested.tuning.block_m = draw.of(std::array{0U, 16U, 32U, 64U, 128U});
    layer.peer.tuning.block_m = draw.of(std::array{0U, 16U, 32U, 64U, 128U});
    return;
  }
  const uint32_t strategy_idx = draw.below(kStrategies.size());
  layer.tested.tuning.strategy = kStrategies[strategy_idx];
  layer.peer.tuning.strategy = kStrategies[(strategy_idx + draw.from(1, 3)) % kStrategies.size()];
}

std::vector<uint32_t> draw_tokens(Draw& draw, const SoakLayer& layer) {
  std::vector<uint32_t> tokens(layer.num_ranks, 0);
  const uint32_t max_tokens = draw.from(0, layer.tested.max_tokens_per_rank);
  if (draw.one_in(4)) {
    tokens[draw.below(layer.num_ranks)] = max_tokens;
    return tokens;
  }
  for (uint32_t& count : tokens) count = draw.one_in(5) ? 0 : draw.from(0, max_tokens);
  return tokens;
}

RoutingSpec draw_routing(Draw& draw, const LayerShape& shape) {
  RoutingSpec routing;
  routing.kind =
      draw.of(std::array{RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_expert, RoutingKind::first_experts});
  routing.zipf_exponent = draw.of(std::array{0.5, 1.0, 2.0});
  routing.expert =
      routing.kind == RoutingKind::first_experts ? draw.from(1, shape.num_experts) : draw.below(shape.num_experts);
  routing.masked_fraction = draw.of(std::array{0.0, 0.0, 0.3, 0.9, 1.0});
  if (draw.one_in(4)) routing.router_weights = {-0.75F, 0.5F, 0.0F, 1.5F, 3.0F, 1e-30F, 0.25F};
  return routing;
}

}  // namespace

std::string SoakLayer::description() const {
  const LayerShape& shape = tested.shape;
  return fmt::format("hidden {}, intermediate {}, {} experts, top {}, {} shared, {} ranks, strategy {}", shape.hidden,
                     shape.intermediate, shape.num_experts, shape.top_k, shape.num_shared_experts, num_ranks,
                     to_string(tested.tuning.strategy));
}

std::string SoakLayer::peer_name() const {
  if (runs_on_cpu(peer.backend)) {
    return fmt::format("on cpu with {} threads a rank and {} ranks", peer.tuning.threads_per_rank, num_peer_ranks);
  }
  return fmt::format("on {} with strategy {} and {} ranks", to_string(peer.backend), to_string(peer.tuning.strategy),
                     num_peer_ranks);
}

SoakLayer draw_soak_layer(Backend backend, uint64_t seed) {
  Draw draw(seed);
  SoakLayer layer;
  layer.seed = seed;
  layer.tested.backend = backend;
  layer.tested.shape = draw_shape(draw);
  layer.tested.activation = draw_activation(draw);
  layer.num_ranks = draw.from(1, kMaxRanks);
  layer.tested.max_tokens_per_rank = draw.of(std::array{1U, 4U, 12U, 40U, 100U});
  layer.weights = draw_weights(draw, layer.tested.shape, seed);
  layer.num_calls = draw.from(8, kMaxCalls);
  layer.num_peer_ranks = draw.one_in(2) ? 1 : layer.num_ranks;
  layer.peer = layer.tested;
  if (layer.num_peer_ranks < layer.num_ranks) layer.peer.max_tokens_per_rank *= layer.num_ranks;
  if (backend == Backend::sm90) layer.peer.backend = Backend::chain;
  draw_tunings(draw, layer);
  return layer;
}

SoakCall draw_soak_call(const SoakLayer& layer, uint32_t call_idx) {
  Draw draw(layer.seed, call_idx);
  SoakCall call;
  call.tokens_per_rank = draw_tokens(draw, layer);
  const LayerShape& shape = layer.tested.shape;
  call.input.shape = shape;
  call.input.type = draw.of(std::array{InputType::bf16, InputType::fp8_f32_scales, InputType::fp8_e8m0_scales});
  call.input.ids = draw.of(std::array{IdType::int32, IdType::int64});
  call.input.routing = draw_routing(draw, shape);
  call.input.seed = Stream(layer.seed, call_idx, 1).at(0);
  const uint32_t num_tokens = std::accumulate(call.tokens_per_rank.begin(), call.tokens_per_rank.end(), 0U);
  if (num_tokens > 0 && draw.one_in(4)) {
    const auto value =
        draw.of(std::array{SpecialValue::zero_row, SpecialValue::zero_group, SpecialValue::nan, SpecialValue::inf,
                           SpecialValue::nan_scale, SpecialValue::tiny, SpecialValue::huge});
    call.input.specials = {{.token_idx = draw.below(num_tokens), .value = value}};
  }
  return call;
}

}  // namespace megamoe::check
