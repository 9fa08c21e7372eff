#pragma once

// The arithmetic of one wgmma: 64 x n sums of 32 (e4m3) or 16 (bf16) products and an accumulator, in the hardware's
// bits.
//
// docs/hopper-tensor-core.md says what was measured; data/hopper-mma holds the recordings. In short:
//   1. A product's exponent is the sum of its operands' exponents, not renormalised. Subnormal operands have the
//      smallest normal exponent and no hidden bit. The accumulator's is its own, -126 when it is subnormal.
//   2. `top` is the largest exponent among the terms that are not zero, and at least -133.
//   3. Every term is truncated toward zero to a multiple of 2^(top - f), f = 13 for e4m3 and 25 for bf16. The sum of
//      these is exact.
//   4. The sum is truncated toward zero to 13 or 23 fraction bits, then to FP32's subnormal grid; beyond FP32 it is
//      infinite. A zero is +0, whatever the signs of the terms.
//   5. A NaN operand or accumulator, 0 * infinity, and infinities of both signs give 0x7FFFFFFF; one infinity stays.

#include <cstdint>

#include "cuda/ptx/wgmma_shape.hpp"

namespace megamoe::emu::tensor_core {

/// D[64, n] = A[64, k] * B[n, k]^T (+ D). Rows of A and of B are 32 bytes of codes, little-endian; `d` is FP32 bits,
/// row after row. REQUIRES: is_valid(spec).
void multiply_rows(const ptx::WgmmaSpec& spec, ptx::ScaleD scale_d, const uint8_t* a, const uint8_t* b, uint32_t* d);

}  // namespace megamoe::emu::tensor_core
