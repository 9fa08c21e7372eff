#include <fmt/format.h>

#include "check/case_table.hpp"
#include "cuda/sm90/pack.hpp"

namespace megamoe {
namespace {

bool is_packable(const Result<ExpertWeights>& weights, const LayerShape& shape) {
  return weights.ok() && sm90::check_packable(*weights, shape, "expert").ok();
}

/// Whether Hopper kernels take the case: its weights, and tuning that it is not about.
bool runs_on_hopper(const CheckCase& one) {
  if (one.tuning_role == TuningRole::subject) return false;
  const SyntheticWeights weights(one.weights);
  if (!is_packable(weights.routed(0), one.config.shape)) return false;
  return one.config.shape.num_shared_experts == 0 || is_packable(weights.shared(0), one.config.shape);
}

}  // namespace

std::vector<CheckCase> with_every_strategy(const std::vector<CheckCase>& cases) {
  std::vector<CheckCase> all;
  for (const CheckCase& one : cases) {
    all.push_back(one);
    if (!runs_on_hopper(one)) continue;
    for (const Strategy strategy : {Strategy::cooperative, Strategy::pingpong, Strategy::small_batch}) {
      CheckCase forced = one;
      forced.name = fmt::format("{}/{}", one.name, to_string(strategy));
      forced.config.tuning.strategy = strategy;
      all.push_back(std::move(forced));
    }
  }
  return all;
}

}  // namespace megamoe
