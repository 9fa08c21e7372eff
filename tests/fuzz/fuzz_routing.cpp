// Any bytes as the JSON of `megamoe bench --routing file:PATH`: refused, or a table of the documented form.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "routing_file.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = megamoe::cli::parse_routing_json(text, "fuzz");
  if (!table.ok()) {
    require(table.status().code() == megamoe::StatusCode::invalid_file && !table.status().message().empty());
    return 0;
  }
  require(table->num_tokens > 0 && table->top_k > 0 && table->top_k <= 32);
  require(table->ids.size() == size_t{table->num_tokens} * table->top_k);
  for (const int64_t id : table->ids) require(id >= -1);
  return 0;
}
