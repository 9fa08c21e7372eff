// Kernels for AVX-512 (F, BW, VL, DQ).

#include "cpu/kernels/vec16.hpp"

namespace megamoe::cpu {

constexpr Kernels kAvx512Kernels = make_kernels<Fp32Steps<Vec16<Subnormals::fast>>>(Isa::avx512, "avx512");
constexpr Kernels kAvx512SlowSubnormalKernels =
    make_kernels<Fp32Steps<Vec16<Subnormals::slow>>>(Isa::avx512, "avx512_slow_subnormals");

}  // namespace megamoe::cpu
