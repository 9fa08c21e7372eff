#include "host/c_convert.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace megamoe::internal {
namespace {

/// One value that an enumeration of the ABI may have, and the name that its error message lists.
template <class Enum>
struct Choice {
  int32_t value;
  Enum meaning;
  std::string_view name;
};

/// An element of an array argument, named only when a message needs it: good calls allocate nothing.
struct Field {
  std::string_view array;
  uint32_t idx;
  std::string_view field;
};
std::string name_of(std::string_view field) { return std::string(field); }
std::string name_of(const Field& field) { return fmt::format("{}[{}].{}", field.array, field.idx, field.field); }

template <class Name, class Enum, size_t kCount>
Result<Enum> choose(const Name& field, int32_t value, const std::array<Choice<Enum>, kCount>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == value) return choice.meaning;
  }
  std::string list;
  for (const Choice<Enum>& choice : choices) {
    list += fmt::format("{}{} = {}", list.empty() ? "" : ", ", choice.name, choice.value);
  }
  return invalid_argument(fmt::format("{} must be one of {}", name_of(field), list), value,
                          "use one of these constants");
}

constexpr std::array kBackends{
    Choice<Backend>{MM_BACKEND_AUTO, Backend::automatic, "MM_BACKEND_AUTO"},
    Choice<Backend>{MM_BACKEND_CPU, Backend::cpu, "MM_BACKEND_CPU"},
    Choice<Backend>{MM_BACKEND_SM90, Backend::sm90, "MM_BACKEND_SM90"},
    Choice<Backend>{MM_BACKEND_SM100, Backend::sm100, "MM_BACKEND_SM100"},
    Choice<Backend>{MM_BACKEND_CHAIN, Backend::chain, "MM_BACKEND_CHAIN"},
};
constexpr std::array kIsas{
    Choice<Isa>{MM_ISA_AUTO, Isa::automatic, "MM_ISA_AUTO"},
    Choice<Isa>{MM_ISA_SCALAR, Isa::scalar, "MM_ISA_SCALAR"},
    Choice<Isa>{MM_ISA_AVX2, Isa::avx2, "MM_ISA_AVX2"},
    Choice<Isa>{MM_ISA_AVX512, Isa::avx512, "MM_ISA_AVX512"},
    Choice<Isa>{MM_ISA_AVX512_BF16, Isa::avx512_bf16, "MM_ISA_AVX512_BF16"},
    Choice<Isa>{MM_ISA_AMX_BF16, Isa::amx_bf16, "MM_ISA_AMX_BF16"},
};
constexpr std::array kPins{
    Choice<Pin>{MM_PIN_AUTO, Pin::automatic, "MM_PIN_AUTO"},
    Choice<Pin>{MM_PIN_NONE, Pin::none, "MM_PIN_NONE"},
    Choice<Pin>{MM_PIN_NODE, Pin::node, "MM_PIN_NODE"},
    Choice<Pin>{MM_PIN_CORE, Pin::core, "MM_PIN_CORE"},
};
constexpr std::array kStrategies{
    Choice<Strategy>{MM_STRATEGY_AUTO, Strategy::automatic, "MM_STRATEGY_AUTO"},
    Choice<Strategy>{MM_STRATEGY_COOPERATIVE, Strategy::cooperative, "MM_STRATEGY_COOPERATIVE"},
    Choice<Strategy>{MM_STRATEGY_PINGPONG, Strategy::pingpong, "MM_STRATEGY_PINGPONG"},
    Choice<Strategy>{MM_STRATEGY_SMALL_BATCH, Strategy::small_batch, "MM_STRATEGY_SMALL_BATCH"},
};
constexpr std::array kRouterWeights{
    Choice<RouterWeightPosition>{MM_ROUTER_WEIGHT_BEFORE_GEMM2, RouterWeightPosition::before_gemm2,
                                 "MM_ROUTER_WEIGHT_BEFORE_GEMM2"},
    Choice<RouterWeightPosition>{MM_ROUTER_WEIGHT_AT_COMBINE, RouterWeightPosition::at_combine,
                                 "MM_ROUTER_WEIGHT_AT_COMBINE"},
};
constexpr std::array kActivationScales{
    Choice<ActivationScale>{MM_ACTIVATION_SCALE_FP32, ActivationScale::fp32, "MM_ACTIVATION_SCALE_FP32"},
    Choice<ActivationScale>{MM_ACTIVATION_SCALE_POWER_OF_TWO, ActivationScale::power_of_two,
                            "MM_ACTIVATION_SCALE_POWER_OF_TWO"},
};
constexpr std::array kWeightFormats{
    Choice<WeightFormat>{MM_WEIGHT_FP8_BLOCK, WeightFormat::fp8_block, "MM_WEIGHT_FP8_BLOCK"},
    Choice<WeightFormat>{MM_WEIGHT_MXFP4, WeightFormat::mxfp4, "MM_WEIGHT_MXFP4"},
    Choice<WeightFormat>{MM_WEIGHT_BF16, WeightFormat::bf16, "MM_WEIGHT_BF16"},
};
constexpr std::array kLayouts{
    Choice<GateUpLayout>{MM_GATE_UP_SEPARATE, GateUpLayout::separate, "MM_GATE_UP_SEPARATE"},
    Choice<GateUpLayout>{MM_GATE_UP_CONCATENATED, GateUpLayout::concatenated, "MM_GATE_UP_CONCATENATED"},
    Choice<GateUpLayout>{MM_GATE_UP_INTERLEAVED, GateUpLayout::interleaved, "MM_GATE_UP_INTERLEAVED"},
};
enum class ScaleFormat : uint8_t { f32, e8m0 };
constexpr std::array kScaleFormats{
    Choice<ScaleFormat>{MM_SCALE_F32, ScaleFormat::f32, "MM_SCALE_F32"},
    Choice<ScaleFormat>{MM_SCALE_E8M0, ScaleFormat::e8m0, "MM_SCALE_E8M0"},
};
enum class XFormat : uint8_t { bf16, fp8_f32, fp8_e8m0 };
constexpr std::array kXFormats{
    Choice<XFormat>{MM_X_BF16, XFormat::bf16, "MM_X_BF16"},
    Choice<XFormat>{MM_X_FP8_F32, XFormat::fp8_f32, "MM_X_FP8_F32"},
    Choice<XFormat>{MM_X_FP8_E8M0, XFormat::fp8_e8m0, "MM_X_FP8_E8M0"},
};
enum class IdType : uint8_t { i32, i64 };
constexpr std::array kIdTypes{
    Choice<IdType>{MM_ID_I32, IdType::i32, "MM_ID_I32"},
    Choice<IdType>{MM_ID_I64, IdType::i64, "MM_ID_I64"},
};

/// `count` values at `data`; NULL is an empty span, for the C++ API to judge.
template <class Value>
std::span<const Value> view(const void* data, size_t count) {
  if (data == nullptr) return {};
  return {static_cast<const Value*>(data), count};
}

/// An unused matrix of a layout is all zero and stays empty.
bool is_absent(const mm_matrix& matrix) {
  return matrix.values == nullptr && matrix.num_rows == 0 && matrix.num_cols == 0;
}

Status to_matrix(const mm_matrix& from, const std::string& name, WeightMatrix& to) {
  if (is_absent(from)) return {};
  const Result<WeightFormat> format = choose(name + ".format", from.format, kWeightFormats);
  if (!format) return format.status();
  to.format = *format;
  to.num_rows = from.num_rows;
  to.num_cols = from.num_cols;
  to.block_rows = from.block_rows;
  to.block_cols = from.block_cols;
  to.values = view<std::byte>(from.values, from.values_bytes);
  if (to.format == WeightFormat::bf16) return {};
  const Result<ScaleFormat> scale_format = choose(name + ".scale_format", from.scale_format, kScaleFormats);
  if (!scale_format) return scale_format.status();
  if (*scale_format == ScaleFormat::f32) {
    to.scales = view<float>(from.scales, from.num_scales);
  } else {
    to.scales = view<E8m0>(from.scales, from.num_scales);
  }
  return {};
}

Status to_timeout(std::string_view field, uint64_t milliseconds, std::chrono::milliseconds& to) {
  if (milliseconds > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / 1'000'000)) {
    return invalid_argument(fmt::format("{} must be below 2^63 nanoseconds", field), milliseconds,
                            "use milliseconds; 60000 is a minute");
  }
  to = std::chrono::milliseconds(milliseconds);
  return {};
}

}  // namespace

Result<LayerConfig> to_config(const mm_layer_config& from) {
  LayerConfig to;
  to.shape = {from.hidden, from.intermediate, from.num_experts, from.top_k, from.num_shared_experts};
  to.max_tokens_per_rank = from.max_tokens_per_rank;
  if (from.limit != 0.0F) to.activation.limit = from.limit;
  to.activation.alpha = from.alpha;
  to.activation.up_offset = from.up_offset;
  const auto router_weight = choose("config.router_weight", from.router_weight, kRouterWeights);
  if (!router_weight) return router_weight.status();
  to.activation.router_weight = *router_weight;
  const auto scale = choose("config.activation_scale", from.activation_scale, kActivationScales);
  if (!scale) return scale.status();
  to.activation.scale = *scale;
  const auto backend = choose("config.backend", from.backend, kBackends);
  if (!backend) return backend.status();
  to.backend = *backend;
  const auto isa = choose("config.isa", from.isa, kIsas);
  if (!isa) return isa.status();
  const auto pin = choose("config.pin", from.pin, kPins);
  if (!pin) return pin.status();
  const auto strategy = choose("config.strategy", from.strategy, kStrategies);
  if (!strategy) return strategy.status();
  to.tuning = {.threads_per_rank = from.threads_per_rank,
               .block_m = from.block_m,
               .gemm1_block_n = from.gemm1_block_n,
               .gemm2_block_n = from.gemm2_block_n,
               .experts_per_wave = from.experts_per_wave,
               .isa = *isa,
               .pin = *pin,
               .strategy = *strategy};
  Status status = to_timeout("config.timeout_ms", from.timeout_ms, to.timeout);
  if (status.ok() && from.start_timeout_ms != 0) {
    status = to_timeout("config.start_timeout_ms", from.start_timeout_ms, to.start_timeout);
  }
  if (!status.ok()) return status;
  if (from.progress != nullptr) {
    to.progress = [progress = from.progress, user = from.progress_user](uint64_t num_done, uint64_t num_experts) {
      progress(user, num_done, num_experts);
    };
  }
  return to;
}

Result<ExpertWeights> to_expert(const mm_expert_weights& from, std::string_view name) {
  ExpertWeights to;
  const auto layout = choose(fmt::format("{}.layout", name), from.layout, kLayouts);
  if (!layout) return layout.status();
  to.layout = *layout;
  const std::array<std::pair<const mm_matrix*, WeightMatrix*>, 4> matrices{
      {{&from.gate, &to.gate}, {&from.up, &to.up}, {&from.gate_up, &to.gate_up}, {&from.down, &to.down}}};
  constexpr std::array<std::string_view, 4> kMatrixNames{"gate", "up", "gate_up", "down"};
  for (size_t matrix_idx = 0; matrix_idx < matrices.size(); ++matrix_idx) {
    const auto& [source, target] = matrices[matrix_idx];
    Status status = to_matrix(*source, fmt::format("{}.{}", name, kMatrixNames[matrix_idx]), *target);
    if (!status.ok()) return status;
  }
  to.gate_bias = view<float>(from.gate_bias, from.gate.num_rows);
  to.up_bias = view<float>(from.up_bias, from.up.num_rows);
  to.gate_up_bias = view<float>(from.gate_up_bias, from.gate_up.num_rows);
  to.down_bias = view<float>(from.down_bias, from.down.num_rows);
  return to;
}

Result<RankInput> to_input(const mm_rank_input& from, const LayerShape& shape, uint32_t local_idx) {
  RankInput to;
  to.num_tokens = from.num_tokens;
  const size_t num_values = size_t{from.num_tokens} * shape.hidden;
  const size_t num_slots = size_t{from.num_tokens} * shape.top_k;
  const size_t num_scales = size_t{from.num_tokens} * ((shape.hidden + kActivationGroup - 1) / kActivationGroup);
  const auto x_format = choose(Field{"inputs", local_idx, "x_format"}, from.x_format, kXFormats);
  if (!x_format) return x_format.status();
  switch (*x_format) {
    case XFormat::bf16: to.x = view<Bf16>(from.x, num_values); break;
    case XFormat::fp8_f32:
      to.x = Fp8Activations{view<Fp8E4m3>(from.x, num_values), view<float>(from.x_scales, num_scales)};
      break;
    case XFormat::fp8_e8m0:
      to.x = Fp8Activations{view<Fp8E4m3>(from.x, num_values), view<E8m0>(from.x_scales, num_scales)};
      break;
  }
  const auto id_type = choose(Field{"inputs", local_idx, "id_type"}, from.id_type, kIdTypes);
  if (!id_type) return id_type.status();
  switch (*id_type) {
    case IdType::i32: to.topk_ids = view<int32_t>(from.topk_ids, num_slots); break;
    case IdType::i64: to.topk_ids = view<int64_t>(from.topk_ids, num_slots); break;
  }
  to.topk_weights = view<float>(from.topk_weights, num_slots);
  return to;
}

RankOutput to_output(const mm_rank_output& from, uint32_t num_tokens, const LayerShape& shape,
                     uint32_t num_local_experts) {
  RankOutput to;
  if (from.y != nullptr) {
    static_assert(sizeof(Bf16) == sizeof(uint16_t) && alignof(Bf16) == alignof(uint16_t));
    to.y = {reinterpret_cast<Bf16*>(from.y), size_t{num_tokens} * shape.hidden};
  }
  if (from.local_expert_rows != nullptr) to.local_expert_rows = {from.local_expert_rows, num_local_experts};
  return to;
}

void fill_plan_info(const PlanInfo& plan, mm_plan_info& info) {
  info.backend = static_cast<mm_backend>(plan.backend);
  info.isa = static_cast<mm_isa>(plan.isa);
  info.strategy = static_cast<mm_strategy>(plan.strategy);
  info.num_ranks = plan.num_ranks;
  info.max_tokens_per_rank = plan.max_tokens_per_rank;
  info.threads_per_rank = plan.threads_per_rank;
  info.pin = static_cast<mm_pin>(plan.pin);
  info.num_local_experts_max = plan.num_local_experts_max;
  info.block_m = plan.block_m;
  info.gemm1_block_n = plan.gemm1_block_n;
  info.gemm2_block_n = plan.gemm2_block_n;
  info.experts_per_wave = plan.experts_per_wave;
  info.num_pool_rows = plan.num_pool_rows;
  info.num_pool_blocks = plan.num_pool_blocks;
  info.workspace_bytes = plan.workspace_bytes;
  info.scratch_bytes = plan.scratch_bytes;
  info.num_buffers = static_cast<uint32_t>(plan.buffers.size());
}

}  // namespace megamoe::internal
