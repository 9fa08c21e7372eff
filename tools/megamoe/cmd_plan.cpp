// megamoe plan: what Layer::create would decide, without allocating anything.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "check/shapes.hpp"
#include "commands.hpp"
#include "cpus.hpp"
#include "options.hpp"
#include "report.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Sizes are in bytes per rank. A workspace buffer is one field of the one allocation that a rank shares with the others;
scratch is private to the rank's workers; on GPUs it holds the copies of inputs and outputs in host memory. The pool has room for the worst case: every token of every rank arrives at one
rank. Weights are not part of the plan. Without --threads, the threads of all ranks together are as many as the affinity
mask has CPUs, or as the CPU quota pays for; `pin` says on which NUMA nodes threads and buffers of each rank stay. On GPUs
`strategy` is the measured rule by which a call chooses how its tiles are laid on the tensor cores.

Examples:
  megamoe plan --shape v4-pro --ranks 8 --max-tokens 8192
  megamoe plan --shape 4096,2048,256,6 --ranks 3 --max-tokens 256 --block-m 64 --json)";

struct PlanOptions {
  NamedShape shape;
  uint32_t num_ranks = 1;
  LayerConfig config;
  OutputForm form = OutputForm::text;
};

Json buffers_json(const PlanInfo& plan) {
  Json buffers = Json::array();
  for (const PlanBuffer& buffer : plan.buffers) {
    buffers.push_back(
        {{"name", buffer.name}, {"shape", buffer.shape}, {"offset", buffer.offset}, {"bytes", buffer.bytes}});
  }
  return buffers;
}

std::string buffers_text(const PlanInfo& plan) {
  size_t name_width = 0;
  for (const PlanBuffer& buffer : plan.buffers) name_width = std::max(name_width, buffer.name.size());
  std::string text = fmt::format("  {:<{}}  {:>15}  {:>15}  shape\n", "buffer", name_width, "offset", "bytes");
  for (const PlanBuffer& buffer : plan.buffers) {
    text += fmt::format("  {:<{}}  {:>15}  {:>15}  {}\n", buffer.name, name_width, buffer.offset, buffer.bytes,
                        buffer.shape);
  }
  return text;
}

std::string plan_text(const NamedShape& named, const PlanInfo& plan) {
  const LayerShape& shape = plan.shape;
  std::string text =
      fmt::format("{} ({}): hidden {}, intermediate {}, {} experts, top {}, {} shared\n", named.name, named.model,
                  shape.hidden, shape.intermediate, shape.num_experts, shape.top_k, shape.num_shared_experts);
  const auto add = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<14} {}\n", what, value);
  };
  add("backend", backend_text(plan));
  add("ranks", fmt::format("{}, each with {}, at most {} tokens and {} experts", plan.num_ranks, workers_text(plan),
                           plan.max_tokens_per_rank, plan.num_local_experts_max));
  if (plan.backend == Backend::cpu) {
    const Cpus cpus = read_cpus();
    add("CPUs", cpus_text(cpus));
    add("pin", pin_text(cpus, plan));
  }
  if (!plan.strategy_rule.empty()) add("strategy", plan.strategy_rule);
  add("gemm1 tile", fmt::format("{} rows x {} intermediate columns", plan.block_m, plan.gemm1_block_n));
  add("gemm2 tile", fmt::format("{} rows x {} hidden columns", plan.block_m, plan.gemm2_block_n));
  add("wave", fmt::format("{} experts", plan.experts_per_wave));
  add("pool", fmt::format("{} rows in {} blocks", plan.num_pool_rows, plan.num_pool_blocks));
  add("workspace", format_bytes(plan.workspace_bytes));
  add("scratch", format_bytes(plan.scratch_bytes));
  return text + buffers_text(plan);
}

Exit make_plan(PlanOptions options) {
  const uint32_t num_shared_experts = options.config.shape.num_shared_experts;
  options.config.shape = options.shape.shape;
  options.config.shape.num_shared_experts = num_shared_experts;
  options.config.activation = options.shape.activation;
  const Result<PlanInfo> info = plan(options.config, options.num_ranks);
  if (!info) return report_error(info.status());
  if (options.form == OutputForm::json) {
    Json json = plan_json(*info);
    json["name"] = options.shape.name;
    json["strategy_rule"] = info->strategy_rule.empty() ? Json() : Json(info->strategy_rule);
    json["buffers"] = buffers_json(*info);
    if (info->backend == Backend::cpu) {
      const Cpus cpus = read_cpus();
      json["cpus"] = cpus_json(cpus);
      json["rank_nodes"] = rank_nodes_json(cpus, *info);
    }
    print_json(json);
  } else {
    print_text(plan_text(options.shape, *info));
  }
  return Exit::ok;
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto options = std::make_shared<PlanOptions>();
  LayerConfig& config = options->config;
  Command command =
      line.add_command("plan", "Print the tiles of a layer and the bytes of every buffer, allocating nothing", kFooter,
                       [options] { return make_plan(*options); });
  add_parsed(command,
             {.name = "--shape",
              .value = "SHAPE",
              .help = shape_names() + " or H,I,E,k: hidden, intermediate, experts, choices per token",
              .presence = Presence::required},
             options->shape, parse_shape);
  add_whole(command, {.name = "--ranks", .value = "N", .help = "ranks of the group, 1 to 64 (default 1)"},
            options->num_ranks, kRanks);
  add_whole(command,
            {.name = "--max-tokens",
             .value = "N",
             .help = "most tokens that one rank brings to one call",
             .presence = Presence::required},
            config.max_tokens_per_rank, {.min = 1, .max = 1 << 24});
  add_whole(command, {.name = "--shared-experts", .value = "N", .help = "experts that every token visits (default 0)"},
            config.shape.num_shared_experts, {.min = 0, .max = 64});
  add_backend(command, config.backend);
  add_tuning(command, config.tuning);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
