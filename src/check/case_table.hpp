#pragma once

// The one table of cases that `megamoe check` and the tests run on every backend. docs and tests derive from it; no
// case is written down anywhere else.

#include <cstdint>
#include <string>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {

/// quick: one case of every kind, seconds. full: everything.
enum class Suite : uint8_t { quick, full };
/// "quick", "full".
std::string_view to_string(Suite suite);
Result<Suite> parse_suite(std::string_view name);

/// One call of a case. The calls of a case run in turn on one layer.
struct CheckCall {
  std::vector<uint32_t> tokens_per_rank;  ///< [num_ranks]
  std::vector<SpecialToken> specials;     ///< rows that are not special must not change because of these
};

/// What the tiles, threads and instruction sets that a case names are to it. They are the CPU's: another backend runs
/// a case without them if they are incidental, and skips it as unsupported if they are what the case is about.
enum class TuningRole : uint8_t { incidental, subject };

struct CheckCase {
  std::string name;    ///< unique; "case01/..." for row 1 of the public failure cases
  LayerConfig config;  ///< shape, activation, tuning, max_tokens_per_rank; the runner sets the backend
  TuningRole tuning_role = TuningRole::incidental;
  uint32_t num_ranks = 1;
  SyntheticWeightSpec weights;  ///< shape as in config
  SyntheticInputSpec input;     ///< shape as in config; specials and seed come from the call
  std::vector<CheckCall> calls;
};

/// The cases of `suite`, in a fixed order. Every quick case is also a full one.
std::vector<CheckCase> check_cases(Suite suite);

/// `cases`, those that Hopper kernels take each followed by itself with every strategy forced, as "NAME/pingpong": the
/// same data, whose bits must not depend on the strategy.
std::vector<CheckCase> with_every_strategy(const std::vector<CheckCase>& cases);

}  // namespace megamoe
