#pragma once

// What this machine could do at best: the two ceilings that a benchmark's numbers are held against.

#include <cstdint>
#include <string_view>

#include "megamoe/megamoe.hpp"

namespace megamoe {

/// GFLOP/s (a multiply-add counts as 2) of `num_threads` threads that do nothing but the multiply-adds of `isa` in
/// registers: on FP32 vectors, BF16 pairs or BF16 tiles; best of several runs, about 0.1 s in all. Errors: num_threads
/// 0; an isa that this CPU lacks.
Result<double> measure_compute_gflops(Isa isa, uint32_t num_threads);

/// What those multiply-adds work on: "FP32 multiply-adds", "BF16 dot products" or "BF16 tiles".
std::string_view compute_kind(Isa isa);

/// GB/s (1e9 bytes) that `num_threads` threads read together, each its own part of a buffer of at least 512 MB and four
/// times the last-level cache; best of several passes, about half a second in all. Errors: num_threads 0;
/// out_of_memory.
Result<double> measure_read_gbytes_per_s(uint32_t num_threads);

}  // namespace megamoe
