#include "reference/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.hpp"

namespace megamoe {
namespace {

/// Error of one row, and in words what is wrong with it (empty if nothing).
struct RowFinding {
  double error = 0;
  std::string problem;
};

RowFinding judge_row(const ReferenceRows& reference, std::span<const Bf16> y, size_t row) {
  const double* want = reference.y.data() + row * reference.hidden;
  double distance_square = 0;
  double norm_square = 0;
  for (size_t col = 0; col < reference.hidden; ++col) {
    const auto got = static_cast<double>(bf16_to_float(y[col].bits));
    if (std::isnan(want[col]) && std::isnan(got)) continue;
    if (std::isnan(want[col])) return {0, fmt::format("column {} must be NaN (got {})", col, got)};
    if (!std::isfinite(got) && got != want[col]) {
      return {std::numeric_limits<double>::infinity(), fmt::format("column {} must be finite (got {})", col, got)};
    }
    if (!std::isfinite(got)) continue;  // the infinity that was wanted
    distance_square += (got - want[col]) * (got - want[col]);
    norm_square += want[col] * want[col];
  }
  const double distance = std::sqrt(distance_square);
  if (distance == 0) return {};
  const double yardstick = std::max(reference.magnitude[row], std::sqrt(norm_square));
  if (yardstick == 0)
    return {std::numeric_limits<double>::infinity(), fmt::format("row must be zero (norm {})", distance)};
  const double error = std::max(0.0, distance - reference.flip_slack[row]) / yardstick;
  if (error <= kMaxRowError) return {error, {}};
  return {error, fmt::format("error {:.3e} is above {:.0e}", error, kMaxRowError)};
}

}  // namespace

Verdict judge(const ReferenceRows& reference, std::span<const Bf16> y) {
  Verdict verdict;
  verdict.num_rows = reference.num_rows;
  if (y.size() != reference.y.size()) {
    verdict.num_bad_rows = std::max(1U, reference.num_rows);
    verdict.worst_error = std::numeric_limits<double>::infinity();
    verdict.message = fmt::format("output must have {} values (got {})", reference.y.size(), y.size());
    return verdict;
  }
  for (uint32_t row = 0; row < reference.num_rows; ++row) {
    verdict.num_poisoned_rows += reference.poisoned[row];
    const RowFinding finding = judge_row(reference, y.subspan(size_t{row} * reference.hidden, reference.hidden), row);
    if (finding.error > verdict.worst_error) {
      verdict.worst_error = finding.error;
      verdict.worst_row = row;
    }
    if (finding.problem.empty()) continue;
    if (verdict.num_bad_rows++ == 0) verdict.message = fmt::format("row {}: {}", row, finding.problem);
  }
  return verdict;
}

}  // namespace megamoe
