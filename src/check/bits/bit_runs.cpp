#include "check/bits/bit_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "check/bits/bit_inputs.hpp"
#include "host/errors.hpp"
#include "reference/judge.hpp"

namespace megamoe::bits {
namespace {

/// What outputs hold before a call: NaN, so that a row that is not written fails.
constexpr Bf16 kUnwritten{0xFFFF};

std::string run_name(const std::string& case_name) { return "bits/" + case_name; }

/// The batch's output, rank after rank. Errors: unsupported, where the strategy that is forced did not run.
Result<std::vector<Bf16>> run_layer(const BitCase& bit_case, const BitInputs& inputs, Backend backend) {
  LayerConfig config = bit_case.config;
  config.backend = backend;
  const auto group = Group::threads(static_cast<uint32_t>(bit_case.tokens_per_rank.size()));
  MM_RETURN_IF_ERROR(group.status());
  auto layer = Layer::create(config, inputs.weights(), *group);
  MM_RETURN_IF_ERROR(layer.status());
  const size_t hidden = config.shape.hidden;
  std::vector<Bf16> y(bit_case.num_tokens() * hidden, kUnwritten);
  std::vector<RankOutput> outputs;
  size_t first = 0;
  for (const uint32_t num_tokens : bit_case.tokens_per_rank) {
    outputs.push_back({.y = std::span(y).subspan(first, num_tokens * hidden), .local_expert_rows = {}});
    first += num_tokens * hidden;
  }
  MM_RETURN_IF_ERROR(layer->run(inputs.ranks(), outputs));
  for (const RankStats& stats : layer->stats()) {
    if (stats.strategy == config.tuning.strategy) continue;
    return error(StatusCode::internal, fmt::format("{} must run as forced", to_string(config.tuning.strategy)),
                 to_string(stats.strategy), "give it kernels of its own before its bits are recorded");
  }
  return y;
}

/// The case's hash. Errors: whatever stopped it; internal, for rows beyond the bound.
Result<uint64_t> run_and_judge(const BitCase& bit_case, const BitPlace& place, CaseResult& result) {
  const auto inputs = BitInputs::make(bit_case, place.model_folder);
  MM_RETURN_IF_ERROR(inputs.status());
  const auto y = run_layer(bit_case, *inputs, place.backend);
  MM_RETURN_IF_ERROR(y.status());
  const auto reference = inputs->reference();
  MM_RETURN_IF_ERROR(reference.status());
  const Verdict verdict = judge(*reference, *y);
  result.num_rows = verdict.num_rows;
  result.worst_row_error = verdict.worst_error;
  if (verdict.ok()) return hash_of(*y);
  return Status(StatusCode::internal,
                fmt::format("{} of {} rows are wrong; {}", verdict.num_bad_rows, verdict.num_rows, verdict.message));
}

/// `take` gets the hash and says what is wrong with it, or ok.
template <class Take>
CaseResult run_case(const BitCase& bit_case, const BitPlace& place, Take take) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  result.name = run_name(bit_case.name);
  const auto hash = run_and_judge(bit_case, place, result);
  const Status status = hash.ok() ? take(*hash) : hash.status();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (status.ok()) {
    result.outcome = CaseOutcome::passed;
  } else {
    result.outcome = status.code() == StatusCode::unsupported ? CaseOutcome::skipped : CaseOutcome::failed;
    result.message = status.to_string();
  }
  return result;
}

template <class Take>
std::vector<NamedRun> runs_of(const BitPlace& place, Take take) {
  std::vector<NamedRun> runs;
  for (BitCase& bit_case : bit_cases()) {
    const std::string name = run_name(bit_case.name);
    runs.push_back({name, [bit_case = std::move(bit_case), place, take] {
                      return run_case(bit_case, place, [&](uint64_t hash) { return take(bit_case, hash); });
                    }});
  }
  return runs;
}

Status compare(const BitRecord& record, const BitCase& bit_case, uint64_t hash) {
  const auto recorded = record.hashes.find(bit_case.name);
  if (recorded == record.hashes.end()) {
    return error(StatusCode::not_found, "the record must have the case", "none",
                 "record anew: the list has changed since");
  }
  if (recorded->second == hash) return {};
  return error(StatusCode::internal,
               fmt::format("the output's hash must be {}, as recorded on {} on {}", hash_text(recorded->second),
                           record.machine, record.date),
               hash_text(hash), "find what changed its bits; record anew only if that was meant");
}

CaseResult find_unknown_cases(const BitRecord& record) {
  CaseResult result;
  result.name = run_name("record");
  std::string unknown;
  const std::vector<BitCase> cases = bit_cases();
  for (const auto& [name, hash] : record.hashes) {
    if (std::ranges::find(cases, name, &BitCase::name) == cases.end()) unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (unknown.empty()) {
    result.outcome = CaseOutcome::passed;
  } else {
    result.message = invalid_file("a record must hold cases of the list alone", unknown, "record anew").to_string();
  }
  return result;
}

}  // namespace

std::vector<NamedRun> recording_runs(const BitPlace& place, BitRecord& record) {
  return runs_of(place, [&record](const BitCase& bit_case, uint64_t hash) -> Status {
    record.hashes[bit_case.name] = hash;
    return {};
  });
}

std::vector<NamedRun> comparing_runs(const BitPlace& place, const BitRecord& record) {
  std::vector<NamedRun> runs =
      runs_of(place, [&record](const BitCase& bit_case, uint64_t hash) { return compare(record, bit_case, hash); });
  runs.push_back({run_name("record"), [&record] { return find_unknown_cases(record); }});
  return runs;
}

}  // namespace megamoe::bits
