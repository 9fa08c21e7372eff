#include "check/case_layer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "host/errors.hpp"

namespace megamoe::check {

Result<CaseLayer> CaseLayer::make(const LayerConfig& config, const SyntheticWeightSpec& weights, uint32_t num_ranks) {
  const Result<Group> group = Group::threads(num_ranks);
  MM_RETURN_IF_ERROR(group.status());
  Result<Layer> layer = Layer::create(config, SyntheticWeights(weights), *group);
  MM_RETURN_IF_ERROR(layer.status());
  return CaseLayer{*std::move(layer), num_ranks};
}

Result<std::vector<Bf16>> CaseLayer::run(const SyntheticBatch& batch, const std::vector<uint32_t>& tokens_per_rank,
                                         std::vector<uint32_t>& rows, Bf16 unwritten) {
  const size_t hidden = layer.plan().shape.hidden;
  std::vector<Bf16> y(batch.num_tokens() * hidden, unwritten);
  rows.assign(layer.plan().shape.num_experts, ~0U);
  std::vector<RankOutput> outputs;
  size_t first = 0;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const size_t count = tokens_per_rank[rank] * hidden;
    outputs.push_back(
        {.y = std::span(y).subspan(first, count),
         .local_expert_rows = std::span(rows).subspan(layer.first_expert(rank), layer.num_local_experts(rank))});
    first += count;
  }
  MM_RETURN_IF_ERROR(layer.run(batch.split(tokens_per_rank), outputs));
  return y;
}

std::string compare_bits(const std::vector<Bf16>& a, const std::vector<Bf16>& b, size_t hidden,
                         std::span<const SpecialToken> except, std::string_view what) {
  for (size_t row = 0; row * hidden < a.size(); ++row) {
    const bool is_excepted =
        std::any_of(except.begin(), except.end(), [&](const SpecialToken& token) { return token.token_idx == row; });
    if (is_excepted || std::equal(a.begin() + row * hidden, a.begin() + (row + 1) * hidden, b.begin() + row * hidden)) {
      continue;
    }
    const auto differs =
        std::mismatch(a.begin() + row * hidden, a.begin() + (row + 1) * hidden, b.begin() + row * hidden);
    return fmt::format("row {} column {} has bits {:#06x} but {:#06x} {}", row,
                       differs.first - (a.begin() + row * hidden), differs.first->bits, differs.second->bits, what);
  }
  return {};
}

std::string check_rows(const SyntheticBatch& batch, const LayerShape& shape, const std::vector<uint32_t>& rows) {
  std::vector<uint32_t> want(shape.num_experts, 0);
  for (uint64_t slot = 0; slot < uint64_t{batch.num_tokens()} * shape.top_k; ++slot) {
    if (batch.id(slot) >= 0) ++want[static_cast<size_t>(batch.id(slot))];
  }
  for (size_t expert_idx = 0; expert_idx < want.size(); ++expert_idx) {
    if (rows[expert_idx] == want[expert_idx]) continue;
    return fmt::format("expert {} must have received {} rows (got {})", expert_idx, want[expert_idx], rows[expert_idx]);
  }
  return {};
}

std::string check_strategy(const Layer& layer, Strategy forced) {
  const Strategy ran = layer.stats().front().strategy;
  if (forced == Strategy::automatic || forced == ran) return {};
  return fmt::format("strategy {} must have run (got {})", to_string(forced), to_string(ran));
}

}  // namespace megamoe::check
