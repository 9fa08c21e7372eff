// Kernels for AVX-512 with the BF16 dot product: two products an instruction and lane.

#include "cpu/kernels/bf16_pairs.hpp"

namespace megamoe::cpu {
namespace {

/// Pairs take columns of K four at a time; what is in a pair shares its scale.
bool takes(const PackedMatrix& matrix) {
  const bool is_far = matrix.layout.format == WeightFormat::bf16 && matrix.facts.far_values == FarValues::some;
  return matrix.layout.segment_k % 4 == 0 && !is_far;
}

constexpr Kernels with_narrower(Kernels kernels) {
  kernels.takes = takes;
  kernels.narrower = &kAvx512SlowSubnormalKernels;
  return kernels;
}

}  // namespace

constexpr Kernels kAvx512Bf16Kernels = with_narrower(make_kernels<Bf16Pairs>(Isa::avx512_bf16, "avx512_bf16"));

}  // namespace megamoe::cpu
