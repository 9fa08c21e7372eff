#include "plan_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace megamoe::cli {

Json shape_json(const LayerShape& shape) {
  return {{"hidden", shape.hidden},
          {"intermediate", shape.intermediate},
          {"num_experts", shape.num_experts},
          {"top_k", shape.top_k},
          {"num_shared_experts", shape.num_shared_experts}};
}

std::string backend_text(const PlanInfo& plan) {
  return fmt::format("{} ({})", to_string(plan.backend),
                     plan.backend == Backend::cpu ? to_string(plan.isa) : to_string(plan.fusion));
}

std::string workers_text(const PlanInfo& plan) {
  return fmt::format("{} {}", plan.threads_per_rank, plan.backend == Backend::cpu ? "threads" : "blocks");
}

Json plan_json(const PlanInfo& plan) {
  return {{"shape", shape_json(plan.shape)},
          {"backend", to_string(plan.backend)},
          {"fusion", to_string(plan.fusion)},
          {"strategy", to_string(plan.strategy)},
          {"isa", plan.backend == Backend::cpu ? Json(to_string(plan.isa)) : Json()},
          {"ranks", plan.num_ranks},
          {"max_tokens_per_rank", plan.max_tokens_per_rank},
          {"threads_per_rank", plan.threads_per_rank},
          {"pin", to_string(plan.pin)},
          {"num_local_experts_max", plan.num_local_experts_max},
          {"block_m", plan.block_m},
          {"gemm1_block_n", plan.gemm1_block_n},
          {"gemm2_block_n", plan.gemm2_block_n},
          {"experts_per_wave", plan.experts_per_wave},
          {"num_pool_rows", plan.num_pool_rows},
          {"num_pool_blocks", plan.num_pool_blocks},
          {"workspace_bytes", plan.workspace_bytes},
          {"scratch_bytes", plan.scratch_bytes}};
}

}  // namespace megamoe::cli
