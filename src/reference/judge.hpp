#pragma once

// Judges a layer's output row by row. A single figure over the whole tensor would pass with a fifth of the rows
// destroyed.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megamoe/types.hpp"
#include "reference/reference.hpp"

namespace megamoe {

/// Largest error of a row, relative to the larger of its magnitude and its norm.
///
/// A correct layer differs from the reference by: one BF16 rounding of the output, at most 2^-9 = 0.2 % of the norm;
/// BF16 partials that fell on the other side of a tie, 2^-8 of single elements and rare; FP32 sums, below 0.01 %. An
/// intermediate value that took the neighbouring e4m3 code moves a row by more, but the reference knows which values
/// stand that near to a boundary and allows for exactly those (ReferenceRows::flip_slack). A skipped quantisation, for
/// comparison, shows as 2 to 4 %, a lost top-8 contribution as 10 % and more.
inline constexpr double kMaxRowError = 0.005;

/// What judge() found.
struct Verdict {
  uint32_t num_rows = 0;
  uint32_t num_bad_rows = 0;
  uint32_t num_poisoned_rows = 0;  ///< rows that had to be NaN (and count as bad if they were not)
  uint32_t worst_row = 0;
  double worst_error = 0;  ///< of the finite rows, after flip_slack; infinite if a row that must be finite is not
  std::string message;     ///< the first bad row and what is wrong with it; empty if none is

  bool ok() const { return num_bad_rows == 0; }
};

/// Judges y [T, H]. A bad row: error above kMaxRowError; NaN where the reference is finite or the reverse; a row
/// without any expert that is not exactly zero. An output of the wrong size is all bad rows.
Verdict judge(const ReferenceRows& reference, std::span<const Bf16> y);

}  // namespace megamoe
