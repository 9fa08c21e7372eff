#pragma once

// `megamoe bench --stage`: the communication stages alone, on GPUs.

#include "bench_layer.hpp"
#include "check/stages/stage_bench.hpp"

namespace megamoe::cli {

/// Measures and prints every number of tokens of every shape.
Exit bench_stages(const BenchRequest& request, stages::StageBenchSpec spec, OutputForm form);

}  // namespace megamoe::cli
