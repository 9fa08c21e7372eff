#pragma once

// A plan as text and as JSON, for every subcommand that makes one.

#include <string>

#include "console.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

Json shape_json(const LayerShape& shape);
/// "cpu (avx2)"; on GPUs how its stages are launched: "sm90 (chain)".
std::string backend_text(const PlanInfo& plan);
/// "4 threads"; on GPUs "132 blocks".
std::string workers_text(const PlanInfo& plan);
/// The choices of a plan, without its buffers.
Json plan_json(const PlanInfo& plan);

}  // namespace megamoe::cli
