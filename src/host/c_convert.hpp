#pragma once

// From the C ABI's structs to the C++ API's: what can be wrong with a struct alone is found here. Everything that needs
// a layer's shape is left to the C++ API, so that there is one place for each rule.

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "host/errors.hpp"
#include "megamoe/megamoe.h"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// `pointer` must not be NULL; `name` is what the caller knows it by ("inputs[2].x").
inline Status require_pointer(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return invalid_argument(fmt::format("{} must not be NULL", name), "NULL", "pass the object");
}

/// A struct of the ABI is there and was compiled against this version of the header. `type` names it: "mm_rank_input".
template <class Struct>
Status require_struct(const Struct* value, std::string_view name, std::string_view type) {
  if (value == nullptr) return require_pointer(value, name);
  if (value->struct_bytes == sizeof(Struct)) return {};
  return invalid_argument(fmt::format("{}.struct_bytes must be sizeof({}) = {}", name, type, sizeof(Struct)),
                          value->struct_bytes,
                          fmt::format("start from the struct's _INIT and the megamoe.h of version {}", version()));
}

Result<LayerConfig> to_config(const mm_layer_config& config);

/// REQUIRES a struct that require_struct() accepts. `name` as in "routed[3]".
Result<ExpertWeights> to_expert(const mm_expert_weights& weights, std::string_view name);

/// Input `local_idx` of a call. ENSURES every span of the result has the length that num_tokens and `shape` ask for, or
/// is empty where the caller passed NULL: the C++ API then names the rule that an empty span breaks, on every rank.
Result<RankInput> to_input(const mm_rank_input& input, const LayerShape& shape, uint32_t local_idx);

RankOutput to_output(const mm_rank_output& output, uint32_t num_tokens, const LayerShape& shape,
                     uint32_t num_local_experts);

/// Fills all of `info` but struct_bytes.
void fill_plan_info(const PlanInfo& plan, mm_plan_info& info);

}  // namespace megamoe::internal
