#pragma once

// A RunReport as text and as JSON.

#include <string>

#include "console.hpp"
#include "plan_report.hpp"
#include "run_layer.hpp"

namespace megamoe::cli {

/// Plan, tokens and rows per rank, expert load, stage times, throughput and checks.
std::string run_text(const RunReport& report);
Json run_json(const RunReport& report);

// The parts of run_text, each ending in a newline.

/// One line: names, format and shape of the layer.
std::string layer_text(const MoeLayerInfo& info);
/// Tokens, experts and received rows of each rank, and bars of the expert load.
std::string load_text(const RunReport& report);
/// Time per stage and throughput.
std::string time_text(const RunReport& report);
/// One line per comparison; empty if none was made.
std::string check_text(const RunReport& report);

/// "separate", "concatenated", "interleaved".
std::string_view to_string(GateUpLayout layout);
/// "deepseek_v3 names, fp8 one F32 scale per 128x128".
std::string storage_text(const MoeLayerInfo& info);
Json layer_json(const MoeLayerInfo& info);

}  // namespace megamoe::cli
