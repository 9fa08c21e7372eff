#include <fmt/format.h>

#include <string_view>

#include "host/errors.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {

Result<ExpertWeights> WeightSource::shared(uint32_t shared_idx) const {
  return invalid_argument("a WeightSource must implement shared() when num_shared_experts is not 0", shared_idx,
                          "override it, or set num_shared_experts to 0");
}

namespace {

Result<ExpertWeights> element(const std::vector<ExpertWeights>& experts, uint32_t idx, std::string_view what) {
  if (idx < experts.size()) return experts[idx];
  return invalid_argument(
      fmt::format("{} must be in 0..{}, the experts that were given", what, static_cast<int64_t>(experts.size()) - 1),
      idx, "give the weights of every expert");
}

}  // namespace

Result<ExpertWeights> ArrayWeights::routed(uint32_t expert_idx) const { return element(routed_, expert_idx, "expert"); }
Result<ExpertWeights> ArrayWeights::shared(uint32_t shared_idx) const {
  return element(shared_, shared_idx, "shared expert");
}

}  // namespace megamoe
