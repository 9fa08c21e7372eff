#pragma once

// The kernel tables of this build, one per translation unit that is compiled for its own instruction set.

#include "cpu/kernels/kernels.hpp"

namespace megamoe::cpu {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;    // x86-64 builds only
extern const Kernels kAvx512Kernels;  // x86-64 builds only

}  // namespace megamoe::cpu
