#include "reference/compare_stored.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/bf16.hpp"

namespace megamoe {

StoredComparison compare_stored(std::span<const Bf16> y, std::span<const float> stored, uint32_t hidden) {
  StoredComparison comparison;
  comparison.num_rows = static_cast<uint32_t>(std::max(y.size(), stored.size()) / hidden);
  if (y.size() != stored.size() || y.size() % hidden != 0) {
    comparison.num_bad_rows = std::max(1U, comparison.num_rows);
    comparison.worst_error = std::numeric_limits<double>::infinity();
    comparison.median_error = comparison.worst_error;
    return comparison;
  }
  std::vector<double> errors;
  for (uint32_t row = 0; row < comparison.num_rows; ++row) {
    double distance = 0;
    double norm = 0;
    for (size_t idx = size_t{row} * hidden; idx < (size_t{row} + 1) * hidden; ++idx) {
      const auto want = static_cast<double>(stored[idx]);
      const double difference = static_cast<double>(bf16_to_float(y[idx].bits)) - want;
      distance += difference * difference;
      norm += want * want;
    }
    const double ratio = distance == 0 ? 0.0 : std::sqrt(distance / norm);
    const double error = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
    errors.push_back(error);
    if (error > comparison.worst_error) {
      comparison.worst_error = error;
      comparison.worst_row = row;
    }
    if (!(error <= kMaxStoredRowError)) ++comparison.num_bad_rows;
  }
  if (errors.empty()) return comparison;
  std::nth_element(errors.begin(), errors.begin() + static_cast<ptrdiff_t>(errors.size() / 2), errors.end());
  comparison.median_error = errors[errors.size() / 2];
  return comparison;
}

}  // namespace megamoe
