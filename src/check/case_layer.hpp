#pragma once

// A synthetic layer of the checks, and what every check of its outputs shares.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::check {

/// What outputs hold before a call: NaN, so that a row that is not written fails.
inline constexpr Bf16 kUnwritten{0xFFFF};
/// The same for a layer whose outputs are compared with another's alone: what neither writes must differ too.
inline constexpr Bf16 kOtherUnwritten{0xFFFE};

/// One layer, on its own group.
struct CaseLayer {
  Layer layer;
  uint32_t num_ranks;

  /// Errors: as Layer::create().
  static Result<CaseLayer> make(const LayerConfig& config, const SyntheticWeightSpec& weights, uint32_t num_ranks);

  /// Outputs [tokens, hidden] of all ranks, one after the other, which hold `unwritten` before the call; `rows`
  /// [num_experts] takes the rows of every expert. Errors: as Layer::run().
  Result<std::vector<Bf16>> run(const SyntheticBatch& batch, const std::vector<uint32_t>& tokens_per_rank,
                                std::vector<uint32_t>& rows, Bf16 unwritten = kUnwritten);
};

// Each returns what is wrong, or an empty string.

/// The first row that differs. Rows of `except` are not compared; `what` ends the sentence: "on one rank".
std::string compare_bits(const std::vector<Bf16>& a, const std::vector<Bf16>& b, size_t hidden,
                         std::span<const SpecialToken> except, std::string_view what);
/// Every expert must have received what the batch sends it.
std::string check_rows(const SyntheticBatch& batch, const LayerShape& shape, const std::vector<uint32_t>& rows);
/// A strategy that is forced must have run.
std::string check_strategy(const Layer& layer, Strategy forced);

}  // namespace megamoe::check
