#pragma once

// Comparison with outputs stored beside a checkpoint, which were computed without quantising activations.

#include <cstdint>
#include <span>

#include "megamoe/types.hpp"

namespace megamoe {

/// Bounds for ||y - stored|| / ||stored|| per row. FP8 activations and FP8 intermediates each carry a relative error of
/// about 2.5 %, independent per element, so a row is off by 3 to 4 %; no row of the tiny model reaches 8 %.
inline constexpr double kMaxStoredRowError = 0.08;
inline constexpr double kMaxStoredMedianError = 0.045;

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
