#include "host/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "host/describe.hpp"
#include "host/errors.hpp"
#include "host/group.hpp"
#include "host/sm90_backend.hpp"
#include "host/sm90_staging.hpp"
#include "host/validate.hpp"
#include "topology/cpu_quota.hpp"
#include "topology/thread_map.hpp"

namespace megamoe {
namespace internal {
namespace {

/// gemm2's default tile: wide enough that decoding the rows costs little, narrow enough that decode has many tiles.
constexpr uint32_t kGemm2BlockN = 256;
/// gemm1 tiles of a wave per worker, so that gemm2 rarely waits for a tile still being worked on.
constexpr uint32_t kWaveTilesPerWorker = 4;
/// Row numbers and element counts of one expert's lists stay below this, with room for arithmetic on them.
constexpr uint64_t kMaxRows = uint64_t{1} << 31;

/// Zero means "choose for me".
uint32_t or_default(uint32_t value, uint32_t chosen) { return value != 0 ? value : chosen; }

/// Tiles that a backend takes where the caller leaves them to it, and the workers that share them.
struct Tiles {
  uint32_t block_m = 0;
  uint32_t gemm1_block_n = 0;
  uint32_t gemm2_block_n = 0;
  uint32_t num_workers = 1;  ///< per rank
};

Tiles cpu_tiles(const LayerConfig& config, uint32_t num_ranks, uint32_t num_workers) {
  const LayerShape& shape = config.shape;
  // Blocks as long as an expert's run is at full load: a weight tile is then expanded once for all of its rows.
  const uint64_t mean_rows = uint64_t{num_ranks} * config.max_tokens_per_rank * shape.top_k / shape.num_experts;
  const uint32_t num_groups = flow::ceil_div(shape.intermediate, flow::kScaleGroup);
  return {.block_m = mean_rows > 64 ? 128U : 64U,
          .gemm1_block_n = flow::ceil_div(num_groups, flow::kMaxGemm1NBlocks) * flow::kScaleGroup,
          .gemm2_block_n = std::min(kGemm2BlockN, shape.hidden),
          .num_workers = num_workers};
}

flow::Dims make_dims(const LayerConfig& config, uint32_t num_ranks, const Tiles& tiles) {
  const LayerShape& shape = config.shape;
  flow::Dims dims;
  dims.num_ranks = num_ranks;
  dims.hidden = shape.hidden;
  dims.intermediate = shape.intermediate;
  dims.num_experts = shape.num_experts;
  dims.num_shared = shape.num_shared_experts;
  dims.top_k = shape.top_k;
  dims.max_tokens = config.max_tokens_per_rank;
  dims.block_m = or_default(config.tuning.block_m, tiles.block_m);
  dims.gemm1_block_n = or_default(config.tuning.gemm1_block_n, tiles.gemm1_block_n);
  dims.gemm2_block_n = or_default(config.tuning.gemm2_block_n, tiles.gemm2_block_n);
  const uint32_t wave = flow::ceil_div(kWaveTilesPerWorker * tiles.num_workers, dims.gemm1_n_blocks());
  dims.experts_per_wave = or_default(config.tuning.experts_per_wave, std::min(wave, dims.num_local_max()));
  return dims;
}

Status validate_sizes(const flow::Dims& dims) {
  if (dims.num_pool_rows() >= kMaxRows) {
    return invalid_argument(fmt::format("the pool must have fewer than {} rows", kMaxRows), dims.num_pool_rows(),
                            "lower max_tokens_per_rank and call more often");
  }
  const uint64_t num_slots = uint64_t{dims.max_tokens} * dims.num_choices();
  if (num_slots >= kMaxRows) {
    return invalid_argument(fmt::format("a rank must have fewer than {} slots, tokens times choices", kMaxRows),
                            num_slots, "lower max_tokens_per_rank and call more often");
  }
  return {};
}

/// What the rules decide.
PlanInfo describe(const LayerConfig& config, Backend backend, const LayerRules& rules) {
  const flow::Dims& d = rules.dims;
  PlanInfo info;
  info.shape = config.shape;
  info.backend = backend;
  info.num_ranks = d.num_ranks;
  info.max_tokens_per_rank = d.max_tokens;
  info.num_local_experts_max = d.num_local_max();
  info.block_m = d.block_m;
  info.gemm1_block_n = d.gemm1_block_n;
  info.gemm2_block_n = d.gemm2_block_n;
  info.experts_per_wave = d.experts_per_wave;
  info.num_pool_rows = d.num_pool_rows();
  info.num_pool_blocks = d.num_pool_blocks();
  info.workspace_bytes = rules.layout.num_bytes;
  for (uint32_t i = 0; i < flow::kNumFields; ++i) {
    const flow::FieldText text = flow::field_text(flow::Field{i});
    info.buffers.push_back({text.name, fmt::format("{} {}", shape_words(text.shape), text.type), rules.layout.offset[i],
                            flow::field_extent(flow::Field{i}, d).num_bytes()});
  }
  return info;
}

Result<CpuPlan> make_cpu_plan(const Tuning& tuning, uint32_t num_ranks) {
  const auto kernels = cpu::find_kernels(tuning.isa);
  MM_RETURN_IF_ERROR(kernels.status());
  CpuPlan cpu;
  cpu.kernels = *kernels;
  cpu.topology = topology::usable();
  cpu.num_useful_threads = topology::num_useful_threads(cpu.topology, topology::cpu_quota());
  cpu.num_workers = or_default(tuning.threads_per_rank, std::max(1U, cpu.num_useful_threads / num_ranks));
  return cpu;
}

/// Rules and description of a layer with these tiles. Errors: invalid_argument.
Result<Plan> make_shared_plan(const LayerConfig& config, Backend backend, uint32_t num_ranks, const Tiles& tiles) {
  const flow::Dims dims = make_dims(config, num_ranks, tiles);
  MM_RETURN_IF_ERROR(validate_sizes(dims));
  Plan plan;
  plan.rules = make_rules(config, dims);
  plan.info = describe(config, backend, plan.rules);
  plan.info.threads_per_rank = tiles.num_workers;
  return plan;
}

Result<Plan> make_cpu_layer_plan(const LayerConfig& config, uint32_t num_ranks) {
  if (config.tuning.strategy != Strategy::automatic) {
    return error(StatusCode::unsupported, "strategy must be auto on cpu: it names how Hopper kernels multiply",
                 to_string(config.tuning.strategy), "leave it out, or use backend sm90 or chain");
  }
  auto cpu = make_cpu_plan(config.tuning, num_ranks);
  MM_RETURN_IF_ERROR(cpu.status());
  auto plan = make_shared_plan(config, Backend::cpu, num_ranks, cpu_tiles(config, num_ranks, cpu->num_workers));
  MM_RETURN_IF_ERROR(plan.status());
  plan->cpu = *std::move(cpu);
  plan->info.isa = plan->cpu.kernels->isa;
  plan->info.scratch_bytes = plan->cpu.num_workers * cpu::Scratch::num_bytes(plan->rules.dims);
  plan->info.pin = topology::resolve_pin(config.tuning.pin, plan->cpu.topology, {num_ranks, plan->cpu.num_workers});
  return plan;
}

Result<Plan> make_sm90_layer_plan(const LayerConfig& config, uint32_t num_ranks) {
  const auto gpus = find_hopper_gpus();
  MM_RETURN_IF_ERROR(gpus.status());
  auto sm90 = make_sm90_plan(config, num_ranks, *gpus);
  MM_RETURN_IF_ERROR(sm90.status());
  auto plan = make_shared_plan(
      config, config.backend, num_ranks,
      {sm90_block_m(config.tuning.strategy), kSm90Gemm1BlockN, kSm90Gemm2BlockN, sm90->blocks_per_rank});
  MM_RETURN_IF_ERROR(plan.status());
  plan->sm90 = *std::move(sm90);
  plan->info.fusion = config.backend == Backend::chain ? Fusion::chain : Fusion::gemms;
  plan->info.strategy = config.tuning.strategy;
  plan->info.strategy_rule = strategy_rule(config.tuning.strategy);
  plan->info.scratch_bytes = Sm90Staging::of(plan->rules.dims).num_bytes;
  return plan;
}

/// Instruction sets that give the same bits have the same number.
uint64_t order_of_additions(Isa isa) {
  return isa == Isa::avx512_bf16 || isa == Isa::amx_bf16 ? static_cast<uint64_t>(isa) : 0;
}

}  // namespace

LayerRules make_rules(const LayerConfig& config, const flow::Dims& dims) {
  LayerRules rules = LayerRules::of(dims);
  const ActivationOptions& options = config.activation;
  rules.activation = {options.limit.value_or(std::numeric_limits<float>::infinity()), options.alpha, options.up_offset};
  rules.scale_rule = options.scale == ActivationScale::fp32 ? flow::ScaleRule::fp32 : flow::ScaleRule::power_of_two;
  rules.weight_rule = options.router_weight == RouterWeightPosition::before_gemm2 ? flow::RouterWeightRule::before_gemm2
                                                                                  : flow::RouterWeightRule::at_combine;
  rules.timeout = config.timeout;
  rules.start_timeout = config.start_timeout;
  return rules;
}

Result<Plan> make_plan(const LayerConfig& config, uint32_t num_ranks) {
  MM_RETURN_IF_ERROR(validate_config(config));
  if (num_ranks < 1 || num_ranks > kMaxRanks) {
    return invalid_argument(fmt::format("num_ranks must be in 1..{}", kMaxRanks), num_ranks, "ask for fewer ranks");
  }
  switch (config.backend) {
    case Backend::automatic:
    case Backend::cpu: return make_cpu_layer_plan(config, num_ranks);
    case Backend::sm90:
    case Backend::chain: return make_sm90_layer_plan(config, num_ranks);
    case Backend::sm100: break;
  }
  return error(StatusCode::unsupported, "backend must be one that this build has: cpu, sm90 or chain",
               to_string(config.backend), "use auto or cpu");
}

cpu::LayerRules cpu_rules(const Plan& plan) { return {plan.rules, plan.cpu.kernels, plan.cpu.num_workers}; }

std::vector<std::pair<std::string, uint64_t>> agreement(const Plan& plan) {
  const flow::Dims& d = plan.rules.dims;
  return {{"backend", static_cast<uint64_t>(plan.info.backend)},
          {"hidden", d.hidden},
          {"intermediate", d.intermediate},
          {"num_experts", d.num_experts},
          {"num_shared_experts", d.num_shared},
          {"top_k", d.top_k},
          {"max_tokens_per_rank", d.max_tokens},
          {"block_m", d.block_m},
          {"gemm1_block_n", d.gemm1_block_n},
          {"gemm2_block_n", d.gemm2_block_n},
          {"experts_per_wave", d.experts_per_wave},
          {"activation limit (bits)", float_bits(plan.rules.activation.limit)},
          {"activation alpha (bits)", float_bits(plan.rules.activation.alpha)},
          {"activation up_offset (bits)", float_bits(plan.rules.activation.up_offset)},
          {"activation scale", static_cast<uint64_t>(plan.rules.scale_rule)},
          {"router_weight", static_cast<uint64_t>(plan.rules.weight_rule)},
          {"threads_per_rank", plan.info.threads_per_rank},
          {fmt::format("isa's order of additions (0: scalar, avx2 and avx512; {}: avx512_bf16; {}: amx_bf16)",
                       order_of_additions(Isa::avx512_bf16), order_of_additions(Isa::amx_bf16)),
           order_of_additions(plan.info.isa)},
          {"workspace_bytes", plan.rules.layout.num_bytes}};
}

}  // namespace internal

Result<PlanInfo> plan(const LayerConfig& config, uint32_t num_ranks) {
  auto plan = internal::make_plan(config, num_ranks);
  if (!plan) return plan.status();
  return std::move(plan->info);
}

}  // namespace megamoe
