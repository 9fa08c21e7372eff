#pragma once

// Comparison with outputs stored beside a checkpoint, which were computed without quantising activations.

#include <cstdint>
#include <span>

#include "megamoe/types.hpp"

namespace megamoe {

/// Bounds for ||y - stored|| / ||stored|| per row. Codes of e4m3 are off by 2.6 % each, in the input and again in the
/// intermediate; of that, trained weights let through about 2 % of a row of the tiny model, 5.5 % of its worst one.
inline constexpr double kMaxStoredRowError = 0.08;
inline constexpr double kMaxStoredMedianError = 0.03;

struct StoredComparison {
  uint32_t num_rows = 0;
  uint32_t num_bad_rows = 0;  ///< rows above kMaxStoredRowError, or not finite
  uint32_t worst_row = 0;
  double worst_error = 0;
  double median_error = 0;

  bool ok() const { return num_rows > 0 && num_bad_rows == 0 && median_error <= kMaxStoredMedianError; }
};

/// Compares y [T, H] with stored [T, H]. REQUIRES hidden > 0; sizes that differ make every row bad.
StoredComparison compare_stored(std::span<const Bf16> y, std::span<const float> stored, uint32_t hidden);

}  // namespace megamoe
