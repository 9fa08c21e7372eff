#pragma once

// Measurements of layers as tables and as JSON.

#include <string>
#include <vector>

#include "bench_layer.hpp"

namespace megamoe::cli {

/// Heading, ceilings and one line per measurement of one shape. REQUIRES at least one result.
std::string results_text(const BenchRequest& request, const std::vector<BenchResult>& results);

/// One object per measurement.
Json results_json(const BenchRequest& request, const std::vector<BenchResult>& results);

}  // namespace megamoe::cli
