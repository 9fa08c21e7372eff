#include "check/stages/stage_runs.hpp"

#include <chrono>

#include "check/stages/device_machine.hpp"

namespace megamoe::stages {
namespace {

/// Different data and, on a real machine, different interleavings.
uint64_t num_seeds(Suite suite) { return suite == Suite::full ? 20 : 3; }

Status run_seeds(const StageCase& stage_case, Suite suite) {
  for (uint64_t seed = 1; seed <= num_seeds(suite); ++seed) {
    auto machine = make_device_machine(stage_case);
    if (!machine) return machine.status();
    const Status status = run_case(stage_case, seed, **machine);
    if (!status.ok()) return {status.code(), "seed " + std::to_string(seed) + ": " + status.message()};
  }
  return {};
}

uint32_t num_rows(const StageCase& stage_case) {
  uint32_t count = 0;
  for (const std::vector<uint32_t>& call : stage_case.num_tokens) {
    for (const uint32_t num_tokens : call) count += num_tokens;
  }
  return count;
}

CaseResult run(const StageCase& stage_case, const std::string& name, Suite suite) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = run_seeds(stage_case, suite);
  CaseResult result;
  result.name = name;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (status.ok()) {
    result.outcome = CaseOutcome::passed;
    result.num_rows = num_rows(stage_case) * static_cast<uint32_t>(num_seeds(suite));
    return result;
  }
  result.outcome = status.code() == StatusCode::unsupported ? CaseOutcome::skipped : CaseOutcome::failed;
  result.message = status.to_string();
  return result;
}

}  // namespace

std::vector<NamedRun> stage_runs(Suite suite) {
  std::vector<StageCase> cases = stage_cases();
  for (StageCase& large : large_stage_cases()) cases.push_back(std::move(large));
  std::vector<NamedRun> runs;
  for (StageCase& stage_case : cases) {
    const std::string name = std::string("stages/") + stage_case.name;
    runs.push_back({name, [stage_case = std::move(stage_case), name, suite] { return run(stage_case, name, suite); }});
  }
  return runs;
}

}  // namespace megamoe::stages
