// Any bytes as a config.json and as a model.safetensors.index.json: refused, or inside the documented limits.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/model_config.hpp"
#include "formats/tensor_store.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_config(std::string_view text) {
  const megamoe::Result<megamoe::ModelConfig> config = megamoe::parse_model_config(text, "fuzz");
  if (!config.ok()) {
    require(!config.status().message().empty());
    return;
  }
  const auto within = [](const std::optional<uint32_t>& value, uint32_t max) {
    return !value || (*value > 0 && *value <= max);
  };
  require(within(config->hidden, megamoe::kMaxModelColumns));
  require(within(config->moe_intermediate, megamoe::kMaxModelColumns));
  require(within(config->intermediate, megamoe::kMaxModelColumns));
  require(within(config->num_experts, megamoe::kMaxModelExperts));
  require(within(config->top_k, megamoe::kMaxModelTopK));
  require(!config->routed_scale || *config->routed_scale > 0);
  require(!config->swiglu_limit || *config->swiglu_limit > 0);
  if (config->weight_block) require(config->weight_block->rows > 0 && config->weight_block->cols > 0);
}

void check_index(std::string_view text) {
  const megamoe::Result<megamoe::ShardIndex> index = megamoe::parse_shard_index(text, "fuzz");
  if (!index.ok()) {
    require(index.status().code() == megamoe::StatusCode::invalid_file);
    return;
  }
  require(!index->entries.empty() && !index->shards.empty() && index->shards.size() <= index->entries.size());
  for (const std::string& shard : index->shards) {
    require(shard.find('/') == std::string::npos && shard.find('\0') == std::string::npos && shard.front() != '.');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_config(text);
  check_index(text);
  return 0;
}
