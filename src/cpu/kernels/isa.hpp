#pragma once

// The kernel tables of this build, one per translation unit that is compiled for its own instruction set.

#include "cpu/kernels/kernels.hpp"

namespace megamoe::cpu {

extern const Kernels kScalarKernels;
// x86-64 builds only; the second of each for CPUs that take a detour for subnormal floats.
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx2SlowSubnormalKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512SlowSubnormalKernels;
extern const Kernels kAvx512Bf16Kernels;
extern const Kernels kAmxBf16Kernels;

}  // namespace megamoe::cpu
