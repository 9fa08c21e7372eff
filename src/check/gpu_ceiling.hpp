#pragma once

// What a Hopper GPU could do at best: the ceilings that a benchmark's numbers are held against.

#include <string>

#include "megamoe/status.hpp"

namespace megamoe {

/// GB/s (1e9 bytes) that the first Hopper GPU reads of a buffer much larger than its L2; best of several passes.
/// Errors: unsupported, saying what is missing; out_of_memory.
Result<double> measure_gpu_read_gbytes_per_s();

/// How fast the vendor's library multiplies FP8.
struct Fp8Ceiling {
  double tflops = 0;    ///< 1e12 multiplications and additions per second
  std::string library;  ///< "cuBLASLt 13.1.0"
};

/// The rate of one large product on the first Hopper GPU: e4m3 x e4m3 to BF16, 8192 cubed, accumulated in FP32 with
/// promotion out of the tensor cores (fast accumulation is off), values normally distributed as quantised weights are,
/// since power, and with it the clock, depends on them. Best pass of the algorithms that the library proposes first,
/// less than a second in all. `library_path` is a libcublasLt.so; empty: the system is searched for one. Errors:
/// not_found, for no library; unsupported, for one that lacks what is needed or does not have such a product; whatever
/// CUDA reports.
Result<Fp8Ceiling> measure_gpu_fp8_tflops(const std::string& library_path);

}  // namespace megamoe
