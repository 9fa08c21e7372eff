#pragma once

// What a Hopper GPU could do at best: the ceiling that a benchmark's reads are held against.

#include "megamoe/status.hpp"

namespace megamoe {

/// GB/s (1e9 bytes) that the first Hopper GPU reads of a buffer much larger than its L2; best of several passes.
/// Errors: unsupported, saying what is missing; out_of_memory.
Result<double> measure_gpu_read_gbytes_per_s();

}  // namespace megamoe
