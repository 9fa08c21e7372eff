#pragma once

// Words about the workspace: the plan's buffers, docs/memory.md, the debug dump, the fault that ended a call.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "host/layer_rules.hpp"

namespace megamoe::internal {

/// "[num_pool_rows, hidden]" out of the field table's "(d.num_pool_rows(), d.hidden)".
std::string shape_words(std::string_view shape);

/// The text of docs/memory.md.
std::string memory_markdown();

/// Copies bytes out of one rank's workspace, wherever it lies.
using ReadWorkspace = std::function<void(uint64_t offset, std::span<std::byte> to)>;

/// Every field of one rank's workspace: name, shape, offset, bytes, first values.
std::string dump_workspace(const LayerRules& rules, const ReadWorkspace& read);

/// What a rank that gave up was waiting for: rule, value, remedy.
std::string fault_words(const LayerRules& rules, const flow::FaultRecord& fault);

}  // namespace megamoe::internal
