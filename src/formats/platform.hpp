#pragma once

// Lets one function serve g++, clang and nvcc (host and device).

#if defined(__CUDACC__)
#define MM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MM_HOST_DEVICE inline
#endif
