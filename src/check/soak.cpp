#include "check/soak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "check/case_layer.hpp"
#include "check/soak_draw.hpp"
#include "host/errors.hpp"
#include "reference/judge.hpp"
#include "reference/reference.hpp"

namespace megamoe {
namespace {

using check::CaseLayer;
using check::SoakCall;
using check::SoakLayer;

/// One drawn layer while it is called.
class SoakRun {
 public:
  SoakRun(const SoakLayer& drawn, SoakReport& report) : drawn_(drawn), report_(report) {}

  Result<std::string> run(uint32_t max_calls, const std::function<void()>& on_call) {
    Result<CaseLayer> tested = CaseLayer::make(drawn_.tested, drawn_.weights, drawn_.num_ranks);
    MM_RETURN_IF_ERROR(tested.status());
    Result<CaseLayer> peer = CaseLayer::make(drawn_.peer, drawn_.weights, drawn_.num_peer_ranks);
    MM_RETURN_IF_ERROR(peer.status());
    const uint32_t num_calls = std::min(max_calls, drawn_.num_calls);
    for (uint32_t call_idx = 0; call_idx < num_calls; ++call_idx) {
      ++report_.num_calls;
      const Result<std::string> problem = run_call(call_idx, *tested, *peer);
      const std::string message = problem.ok() ? *problem : problem.status().to_string();
      if (!message.empty()) {
        return fmt::format("call {}: {}; --soak {} --seed {} shows it again", call_idx + 1, message, call_idx + 1,
                           drawn_.seed);
      }
      on_call();
    }
    return std::string();
  }

 private:
  Result<std::string> run_call(uint32_t call_idx, CaseLayer& tested, CaseLayer& peer) {
    const SoakCall call = check::draw_soak_call(drawn_, call_idx);
    const uint32_t num_tokens = std::accumulate(call.tokens_per_rank.begin(), call.tokens_per_rank.end(), 0U);
    const SyntheticBatch batch(call.input, num_tokens);
    std::vector<uint32_t> rows;
    const Result<std::vector<Bf16>> y = tested.run(batch, call.tokens_per_rank, rows);
    MM_RETURN_IF_ERROR(y.status());
    report_.num_rows += num_tokens;
    ++report_.calls_of_strategy.at(static_cast<size_t>(tested.layer.stats().front().strategy));
    if (std::string problem = check(tested, drawn_.tested, batch, rows); !problem.empty()) return problem;

    const std::vector<uint32_t> peer_tokens =
        drawn_.num_peer_ranks == drawn_.num_ranks ? call.tokens_per_rank : std::vector<uint32_t>{num_tokens};
    const Result<std::vector<Bf16>> peer_y = peer.run(batch, peer_tokens, rows, check::kOtherUnwritten);
    MM_RETURN_IF_ERROR(peer_y.status());
    if (std::string problem = check(peer, drawn_.peer, batch, rows); !problem.empty()) {
      return fmt::format("{}: {}", drawn_.peer_name(), problem);
    }
    std::string problem = check::compare_bits(*y, *peer_y, drawn_.tested.shape.hidden, {}, drawn_.peer_name());
    if (!problem.empty() || call_idx > 0) return problem;
    return judge_rows(batch, *y);
  }

  static std::string check(const CaseLayer& layer, const LayerConfig& config, const SyntheticBatch& batch,
                           const std::vector<uint32_t>& rows) {
    std::string problem = check::check_strategy(layer.layer, config.tuning.strategy);
    return problem.empty() ? check::check_rows(batch, config.shape, rows) : problem;
  }

  Result<std::string> judge_rows(const SyntheticBatch& batch, const std::vector<Bf16>& y) {
    const Result<ReferenceRows> reference = reference_rows(drawn_.tested, SyntheticWeights(drawn_.weights), batch.all(),
                                                           product_sums(drawn_.tested.backend));
    MM_RETURN_IF_ERROR(reference.status());
    const Verdict verdict = judge(*reference, y);
    report_.worst_row_error = std::max(report_.worst_row_error, verdict.worst_error);
    if (verdict.ok()) return std::string();
    return fmt::format("{} of {} rows are wrong; {}", verdict.num_bad_rows, verdict.num_rows, verdict.message);
  }

  const SoakLayer& drawn_;
  SoakReport& report_;
};

}  // namespace

Result<std::string> check::soak_layer(const SoakLayer& drawn, uint32_t max_calls, SoakReport& report,
                                      const std::function<void()>& on_call) {
  ++report.num_layers;
  return SoakRun(drawn, report).run(max_calls, on_call);
}

Result<SoakReport> soak(const SoakSpec& spec, const std::function<void(uint64_t, uint64_t)>& progress) {
  SoakReport report;
  while (report.num_calls < spec.num_calls && report.finding.empty()) {
    const SoakLayer drawn = check::draw_soak_layer(spec.backend, spec.seed + report.num_layers);
    const Result<std::string> problem = check::soak_layer(drawn, spec.num_calls - report.num_calls, report, [&] {
      if (progress) progress(report.num_calls, spec.num_calls);
    });
    const bool is_missing = problem.status().code() == StatusCode::unsupported && report.num_layers == 1;
    if (is_missing) return problem.status();
    const std::string message = problem.ok() ? *problem : problem.status().to_string();
    if (!message.empty()) {
      report.finding = fmt::format("seed {} ({}): {}", drawn.seed, drawn.description(), message);
    }
  }
  return report;
}

}  // namespace megamoe
