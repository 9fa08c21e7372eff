#include "check/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "host/errors.hpp"
#include "reference/judge.hpp"
#include "reference/reference.hpp"

namespace megamoe {
namespace {

/// What outputs hold before a call: NaN, so that a row that is not written fails.
constexpr Bf16 kUnwritten{0xFFFF};

uint32_t sum(const std::vector<uint32_t>& values) { return std::accumulate(values.begin(), values.end(), 0U); }

/// One layer of a case, on its own group.
struct Runnable {
  Layer layer;
  uint32_t num_ranks;

  static Result<Runnable> make(const CheckCase& check_case, const LayerConfig& config, uint32_t num_ranks) {
    const Result<Group> group = Group::threads(num_ranks);
    MM_RETURN_IF_ERROR(group.status());
    const SyntheticWeights weights(check_case.weights);
    Result<Layer> layer = Layer::create(config, weights, *group);
    MM_RETURN_IF_ERROR(layer.status());
    return Runnable{*std::move(layer), num_ranks};
  }

  /// Outputs of all ranks, one after the other; `rows` takes the rows of every expert.
  Result<std::vector<Bf16>> run(const SyntheticBatch& batch, const std::vector<uint32_t>& tokens_per_rank,
                                std::vector<uint32_t>& rows) {
    const size_t hidden = layer.plan().shape.hidden;
    std::vector<Bf16> y(batch.num_tokens() * hidden, kUnwritten);
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
};

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

/// Empty if equal; else the first row that differs. Rows of `except` are not compared.
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
    Result<Runnable> tested = Runnable::make(case_, case_.config, case_.num_ranks);
    MM_RETURN_IF_ERROR(tested.status());
    Result<Runnable> plain = Runnable::make(case_, plain_config(case_), 1);
    MM_RETURN_IF_ERROR(plain.status());
    for (size_t call_idx = 0; call_idx < case_.calls.size(); ++call_idx) {
      const Result<std::string> problem = run_call(case_.calls[call_idx], call_idx, *tested, *plain, result);
      MM_RETURN_IF_ERROR(problem.status());
      if (!problem->empty()) return fmt::format("call {}: {}", call_idx, *problem);
    }
    return std::string();
  }

 private:
  /// A strategy that is forced must have run.
  std::string check_strategy(const Layer& layer) const {
    const Strategy forced = case_.config.tuning.strategy;
    const Strategy ran = layer.stats().front().strategy;
    if (forced == Strategy::automatic || forced == ran) return {};
    return fmt::format("strategy {} must have run (got {})", to_string(forced), to_string(ran));
  }

  Result<std::string> run_call(const CheckCall& call, size_t call_idx, Runnable& tested, Runnable& plain,
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
    if (std::string problem = check_strategy(tested.layer); !problem.empty()) return problem;
    if (std::string problem = check_rows(batch, case_.config.shape, rows); !problem.empty()) return problem;

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
    std::string problem = compare_bits(*y, *plain_y, hidden, {}, "on one rank");
    if (!problem.empty() || call.specials.empty()) return problem;
    spec.specials.clear();
    const Result<std::vector<Bf16>> clean_y = plain.run(SyntheticBatch(spec, num_tokens), {num_tokens}, rows);
    MM_RETURN_IF_ERROR(clean_y.status());
    return compare_bits(*y, *clean_y, hidden, call.specials, "in a batch without special tokens");
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
