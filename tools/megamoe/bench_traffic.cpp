#include "bench_traffic.hpp"

#include <algorithm>

#include "flow/dims.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::cli {
namespace {

uint32_t owner_of(const Layer& layer, uint32_t expert_idx) {
  uint32_t rank = 0;
  while (expert_idx >= layer.first_expert(rank) + layer.num_local_experts(rank)) ++rank;
  return rank;
}

}  // namespace

uint32_t count_gpus(const PlanInfo& plan) {
  if (plan.backend == Backend::cpu) return 0;
  const Result<internal::HopperGpus> gpus = internal::find_hopper_gpus();
  return gpus ? std::min(gpus->num_gpus, plan.num_ranks) : 0;
}

Traffic count_traffic(const SyntheticBatch& tokens, const Layer& layer, uint32_t tokens_per_rank, uint32_t num_gpus) {
  const PlanInfo& plan = layer.plan();
  const uint64_t hidden = plan.shape.hidden;
  const uint64_t bytes_there =
      hidden + flow::ceil_div(plan.shape.hidden, flow::kScaleGroup) * sizeof(float) + sizeof(float);
  const uint64_t bytes_back = hidden * sizeof(Bf16);
  const uint32_t num_devices = std::max(1U, num_gpus);
  const auto device_of = [&](uint32_t rank) { return rank * num_devices / plan.num_ranks; };
  Traffic traffic;
  std::vector<uint64_t> incoming(num_devices);
  for (uint32_t home = 0; home < plan.num_ranks; ++home) {
    const uint64_t num_slots = uint64_t{tokens_per_rank} * plan.shape.top_k;
    for (uint64_t slot = home * num_slots; slot < (home + 1) * num_slots; ++slot) {
      if (tokens.id(slot) < 0) continue;
      traffic.row_bytes += bytes_there + bytes_back;
      const uint32_t there = device_of(owner_of(layer, static_cast<uint32_t>(tokens.id(slot))));
      if (there == device_of(home)) continue;
      incoming[there] += bytes_there;
      incoming[device_of(home)] += bytes_back;
    }
  }
  traffic.link_bytes = *std::max_element(incoming.begin(), incoming.end());
  return traffic;
}

}  // namespace megamoe::cli
