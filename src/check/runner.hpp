#pragma once

// Runs cases of the table through the public API and judges what comes out.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "check/case_table.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {

enum class CaseOutcome : uint8_t { passed, failed, skipped };
/// "passed", "failed", "skipped".
std::string_view to_string(CaseOutcome outcome);

struct CaseResult {
  std::string name;
  CaseOutcome outcome = CaseOutcome::failed;
  double worst_row_error = 0;  ///< over all calls and rows, as Verdict::worst_error
  uint32_t num_rows = 0;       ///< rows judged
  double seconds = 0;
  std::string message;  ///< why it failed or was skipped; empty if it passed
};

struct CheckSummary {
  uint32_t passed = 0;
  uint32_t failed = 0;
  uint32_t skipped = 0;
  double worst_row_error = 0;
};

/// Runs one case on `backend` and demands, for every call: the FP64 reference row by row; the same bits from one rank
/// of the same backend with default tuning (strategy auto), on the CPU with one worker; with special tokens, the same
/// bits in all other rows as without them; the right number of rows for every local expert. Skipped:
/// StatusCode::unsupported, because the backend or instruction set is not available here, or the backend cannot take
/// the case's weights or tuning.
CaseResult run_case(const CheckCase& check_case, Backend backend);

/// Something that gives one result: a case of the table, or of another table on the same backend.
struct NamedRun {
  std::string name;
  std::function<CaseResult()> run;
};

/// One run per case of the table, to which `cases` must stay alive.
std::vector<NamedRun> named_runs(std::span<const CheckCase> cases, Backend backend);

/// Runs them in order; `on_result` (may be empty) is called after each with (result, runs done, runs in all).
CheckSummary run_all(std::span<const NamedRun> runs,
                     const std::function<void(const CaseResult&, size_t, size_t)>& on_result);

}  // namespace megamoe
