#pragma once

// Distributions of operands that reach the corners of the tensor core's arithmetic.

#include <cstdint>

#include "cuda/ptx/wgmma_shape.hpp"
#include "draw.hpp"

namespace megamoe::record {

/// How the operands of one case are drawn. Exponents are the fields as stored.
struct NumberMix {
  int32_t a_exponent, b_exponent, c_exponent;  // centre
  int32_t a_width, b_width, c_width;           // drawn from centre - width to centre + width, kept in range
  uint32_t zero_in_256;                        // of A's elements
  uint32_t special_in_256;                     // of A's, B's and the accumulator's elements
  bool sparse_fractions;                       // all zeros or all ones instead of uniform
  bool cancels;                                // products of neighbours along K nearly cancel
  bool c_cancels;                              // the accumulator nearly cancels the first product
  bool one_sign;                               // A negative, B positive, the accumulator negative
  bool uniform_codes;                          // every code equally likely; the fields above are not used
};

/// The mix of case `case_idx`: eight families take turns.
NumberMix draw_mix(ptx::MmaFormat format, uint32_t case_idx, Draw& draw);

/// Fills A [64, k], B [n, k] (codes, little-endian) and the accumulator [64, n].
void fill_numbers(const NumberMix& mix, const ptx::WgmmaSpec& spec, Draw& draw, uint8_t* a, uint8_t* b, uint32_t* c);

}  // namespace megamoe::record
