#include "check/case_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "check/case_builder.hpp"
#include "check/fnv1a.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace check {

CheckCase CaseBuilder::base(std::string name) {
  CheckCase check_case;
  check_case.name = std::move(name);
  check_case.config.shape = {.hidden = 256, .intermediate = 128, .num_experts = 8, .top_k = 2};
  set_tokens(check_case, {17});
  return check_case;
}

void CaseBuilder::add(Suite smallest_suite, CheckCase check_case) {
  if (suite_ == Suite::quick && smallest_suite == Suite::full) return;
  uint32_t max_tokens = 1;
  for (const CheckCall& call : check_case.calls) {
    for (const uint32_t tokens : call.tokens_per_rank) max_tokens = std::max(max_tokens, tokens);
  }
  check_case.config.max_tokens_per_rank = max_tokens;
  check_case.weights.shape = check_case.config.shape;
  check_case.input.shape = check_case.config.shape;
  // From the name: a case keeps its data when others are added before it.
  check_case.weights.seed = fnv1a(check_case.name);
  check_case.input.seed = ~check_case.weights.seed;
  cases_.push_back(std::move(check_case));
}

void set_tokens(CheckCase& check_case, std::vector<uint32_t> tokens_per_rank) {
  check_case.num_ranks = static_cast<uint32_t>(tokens_per_rank.size());
  check_case.calls.assign(1, CheckCall{.tokens_per_rank = std::move(tokens_per_rank), .specials = {}});
}

std::string format_name(const MatrixFormat& format) {
  if (format.format != WeightFormat::fp8_block) return std::string(to_string(format.format));
  return fmt::format("fp8-{}x{}-{}", format.block_rows, format.block_cols,
                     format.scale == ScaleType::f32 ? "f32" : "e8m0");
}

std::string_view layout_name(GateUpLayout layout) {
  switch (layout) {
    case GateUpLayout::separate: return "separate";
    case GateUpLayout::concatenated: return "concatenated";
    case GateUpLayout::interleaved: return "interleaved";
  }
  return "unknown";
}

std::string_view input_name(InputType type) {
  switch (type) {
    case InputType::bf16: return "x-bf16";
    case InputType::fp8_f32_scales: return "x-fp8-f32";
    case InputType::fp8_e8m0_scales: return "x-fp8-e8m0";
  }
  return "unknown";
}

std::string_view position_name(RouterWeightPosition position) {
  return position == RouterWeightPosition::before_gemm2 ? "before-gemm2" : "at-combine";
}

}  // namespace check

std::string_view to_string(Suite suite) { return suite == Suite::quick ? "quick" : "full"; }

Result<Suite> parse_suite(std::string_view name) {
  for (const Suite suite : {Suite::quick, Suite::full}) {
    if (to_string(suite) == name) return suite;
  }
  return invalid_argument("suite must be one of quick, full", name, "choose one of these");
}

std::vector<CheckCase> check_cases(Suite suite) {
  check::CaseBuilder builder(suite);
  check::add_numbered_cases(builder);
  check::add_grid_cases(builder);
  return builder.take();
}

}  // namespace megamoe
