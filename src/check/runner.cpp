#include "check/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "check/case_layer.hpp"
#include "host/errors.hpp"
#include "reference/judge.hpp"
#include "reference/reference.hpp"

namespace megamoe {
namespace {

using check::CaseLayer;

uint32_t sum(const std::vector<uint32_t>& values) { return std::accumulate(values.begin(), values.end(), 0U); }

/// An instruction set that gives the bits of `isa`, another one if there is one.
Isa equal_isa(Isa isa) { return isa == Isa::avx2 || isa == Isa::avx512 ? Isa::scalar : isa; }

bool runs_on_cpu(Backend backend) { return backend == Backend::cpu || backend == Backend::automatic; }

/// The configuration that every other must equal bit for bit: one rank, on the CPU one worker, default tiles.
LayerConfig plain_config(const CheckCase& check_case) {
  LayerConfig config = check_case.config;
  config.tuning = {};
  if (runs_on_cpu(config.backend)) {
    config.tuning = {.threads_per_rank = 1, .isa = equal_isa(check_case.config.tuning.isa)};
  }
  for (const CheckCall& call : check_case.calls) {
    config.max_tokens_per_rank = std::max(config.max_tokens_per_rank, sum(call.tokens_per_rank));
  }
  return config;
}

/// One case while it runs.
class CaseRun {
 public:
  CaseRun(const CheckCase& check_case, Backend backend) : case_(check_case) {
    case_.config.backend = backend;
    if (runs_on_cpu(backend) || case_.tuning_role == TuningRole::subject) return;
    const Tuning& tuning = case_.config.tuning;
    case_.config.tuning = {.experts_per_wave = tuning.experts_per_wave, .strategy = tuning.strategy};
  }

  /// ok() with an empty string if all is well, a string that says what is wrong, or the status that stopped the run.
  Result<std::string> run(CaseResult& result) {
    Result<CaseLayer> tested = CaseLayer::make(case_.config, case_.weights, case_.num_ranks);
    MM_RETURN_IF_ERROR(tested.status());
    Result<CaseLayer> plain = CaseLayer::make(plain_config(case_), case_.weights, 1);
    MM_RETURN_IF_ERROR(plain.status());
    for (size_t call_idx = 0; call_idx < case_.calls.size(); ++call_idx) {
      const Result<std::string> problem = run_call(case_.calls[call_idx], call_idx, *tested, *plain, result);
      MM_RETURN_IF_ERROR(problem.status());
      if (!problem->empty()) return fmt::format("call {}: {}", call_idx, *problem);
    }
    return std::string();
  }

 private:
  /// What the plain layer is, to whoever reads that its bits differ.
  std::string plain_name() const {
    return case_.config.tuning.strategy == Strategy::automatic ? "on one rank" : "on one rank with strategy auto";
  }

  Result<std::string> run_call(const CheckCall& call, size_t call_idx, CaseLayer& tested, CaseLayer& plain,
                               CaseResult& result) {
    SyntheticInputSpec spec = case_.input;
    spec.specials = call.specials;
    spec.seed += call_idx;
    const uint32_t num_tokens = sum(call.tokens_per_rank);
    const size_t hidden = case_.config.shape.hidden;
    const SyntheticBatch batch(spec, num_tokens);
    std::vector<uint32_t> rows;
    const Result<std::vector<Bf16>> y = tested.run(batch, call.tokens_per_rank, rows);
    MM_RETURN_IF_ERROR(y.status());
    if (std::string problem = check::check_strategy(tested.layer, case_.config.tuning.strategy); !problem.empty())
      return problem;
    if (std::string problem = check::check_rows(batch, case_.config.shape, rows); !problem.empty()) return problem;

    const SyntheticWeights weights(case_.weights);
    const Result<ReferenceRows> reference =
        reference_rows(case_.config, weights, batch.all(), product_sums(case_.config.backend));
    MM_RETURN_IF_ERROR(reference.status());
    const Verdict verdict = judge(*reference, *y);
    result.worst_row_error = std::max(result.worst_row_error, verdict.worst_error);
    result.num_rows += verdict.num_rows;
    if (!verdict.ok())
      return fmt::format("{} of {} rows are wrong; {}", verdict.num_bad_rows, num_tokens, verdict.message);

    const Result<std::vector<Bf16>> plain_y = plain.run(batch, {num_tokens}, rows);
    MM_RETURN_IF_ERROR(plain_y.status());
    std::string problem = check::compare_bits(*y, *plain_y, hidden, {}, plain_name());
    if (!problem.empty() || call.specials.empty()) return problem;
    spec.specials.clear();
    const Result<std::vector<Bf16>> clean_y = plain.run(SyntheticBatch(spec, num_tokens), {num_tokens}, rows);
    MM_RETURN_IF_ERROR(clean_y.status());
    return check::compare_bits(*y, *clean_y, hidden, call.specials, "in a batch without special tokens");
  }

  CheckCase case_;
};

}  // namespace

std::string_view to_string(CaseOutcome outcome) {
  switch (outcome) {
    case CaseOutcome::passed: return "passed";
    case CaseOutcome::failed: return "failed";
    case CaseOutcome::skipped: return "skipped";
  }
  return "unknown";
}

CaseResult run_case(const CheckCase& check_case, Backend backend) {
  const auto start = std::chrono::steady_clock::now();
  CaseResult result;
  result.name = check_case.name;
  const Result<std::string> problem = CaseRun(check_case, backend).run(result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.message = problem.ok() ? *problem : problem.status().to_string();
  if (problem.ok() && problem->empty()) {
    result.outcome = CaseOutcome::passed;
  } else if (problem.status().code() == StatusCode::unsupported) {
    result.outcome = CaseOutcome::skipped;
  } else {
    result.outcome = CaseOutcome::failed;
  }
  return result;
}

std::vector<NamedRun> named_runs(std::span<const CheckCase> cases, Backend backend) {
  std::vector<NamedRun> runs;
  for (const CheckCase& one : cases) {
    runs.push_back({one.name, [&one, backend] { return run_case(one, backend); }});
  }
  return runs;
}

CheckSummary run_all(std::span<const NamedRun> runs,
                     const std::function<void(const CaseResult&, size_t, size_t)>& on_result) {
  CheckSummary summary;
  for (size_t i = 0; i < runs.size(); ++i) {
    const CaseResult result = runs[i].run();
    summary.passed += result.outcome == CaseOutcome::passed ? 1 : 0;
    summary.failed += result.outcome == CaseOutcome::failed ? 1 : 0;
    summary.skipped += result.outcome == CaseOutcome::skipped ? 1 : 0;
    summary.worst_row_error = std::max(summary.worst_row_error, result.worst_row_error);
    if (on_result) on_result(result, i + 1, runs.size());
  }
  return summary;
}

}  // namespace megamoe
