#pragma once

// How one kernel source serves two compilers.
//
// Under nvcc a function of simt/ or ptx/ is one instruction or built-in. Under any other compiler the same function
// calls the emulator of src/emu, and takes one argument more: the source line that it is called from, for the
// emulator's findings. Kernel code itself never asks which of the two it is.

#if defined(__CUDACC__)

#define MM_DEVICE __device__ __forceinline__
#define MM_WHERE
#define MM_WHERE_ONLY

#else

#include "emu/where.hpp"

#define MM_DEVICE inline
/// Behind the last parameter of a layer function.
#define MM_WHERE , ::megamoe::emu::Where where = ::megamoe::emu::Where::current()
/// The same for a function without other parameters.
#define MM_WHERE_ONLY ::megamoe::emu::Where where = ::megamoe::emu::Where::current()

#endif

// These mean the same to both compilers, so that plain arithmetic can be written in kernels without an #if.
#if defined(__CUDACC__)
#define MM_UNROLL _Pragma("unroll")
#else
#define MM_UNROLL _Pragma("GCC unroll 16")
#endif
