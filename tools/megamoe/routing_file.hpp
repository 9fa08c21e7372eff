#pragma once

// Expert ids from a file, for `megamoe bench --routing file:PATH`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::cli {

/// Ids [num_tokens, top_k], row-major; -1 means "no expert".
struct RoutingTable {
  uint32_t num_tokens = 0;
  uint32_t top_k = 0;
  std::vector<int64_t> ids;
};

/// Parses {"topk_idx": [[3, 7], [0, -1], ...]}: at least one row, all rows of one length from 1 to 32, whole numbers of
/// at least -1. `origin` stands in front of every message. Errors: invalid_file.
Result<RoutingTable> parse_routing_json(std::string_view text, std::string_view origin);

/// Reads a .json file as above, or a safetensors file with topk_idx [T, K], I64 or I32 (a name that ends in .topk_idx
/// will do if it is the only one). Errors: not_found, invalid_file.
Result<RoutingTable> read_routing_file(const std::string& path);

}  // namespace megamoe::cli
