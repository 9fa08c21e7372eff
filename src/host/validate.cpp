#include "host/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "flow/pool.hpp"
#include "flow/route.hpp"
#include "host/errors.hpp"

namespace megamoe::internal {
namespace {

constexpr uint32_t kMaxDim = 1U << 20;
constexpr uint32_t kMaxExperts = 1024;
constexpr uint32_t kMaxTopK = 32;
constexpr uint32_t kMaxShared = 8;
constexpr uint32_t kMaxTokens = 1U << 24;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kAlignment = 16;
constexpr std::array<uint32_t, 5> kBlockM = {16, 32, 64, 128, 256};

Status in_range(std::string_view name, uint32_t value, uint32_t low, uint32_t high, std::string_view remedy) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{} must be in {}..{}", name, low, high), value, remedy);
}

Status multiple_of(std::string_view name, uint32_t value, uint32_t divisor, std::string_view remedy) {
  if (value % divisor == 0) return {};
  return invalid_argument(fmt::format("{} must be a multiple of {}", name, divisor), value, remedy);
}

Status validate_shape(const LayerShape& shape) {
  MM_RETURN_IF_ERROR(in_range("hidden", shape.hidden, kAlignment, kMaxDim, "give the columns of a token"));
  MM_RETURN_IF_ERROR(multiple_of("hidden", shape.hidden, kAlignment, "pad the weights and the tokens with zeros"));
  MM_RETURN_IF_ERROR(
      in_range("intermediate", shape.intermediate, kAlignment, kMaxDim, "give the columns between gemm1 and gemm2"));
  MM_RETURN_IF_ERROR(multiple_of("intermediate", shape.intermediate, kAlignment, "pad the weights with zeros"));
  MM_RETURN_IF_ERROR(in_range("num_experts", shape.num_experts, 1, kMaxExperts, "split the layer over several groups"));
  MM_RETURN_IF_ERROR(in_range("top_k", shape.top_k, 1, kMaxTopK, "give the router's choices per token"));
  return in_range("num_shared_experts", shape.num_shared_experts, 0, kMaxShared,
                  "merge shared experts into fewer, wider ones");
}

Status validate_activation(const ActivationOptions& options) {
  if (options.limit && !(std::isfinite(*options.limit) && *options.limit > 0.0F)) {
    return invalid_argument("limit must be positive and finite", *options.limit, "leave it unset for no clamp");
  }
  if (!std::isfinite(options.alpha)) {
    return invalid_argument("alpha must be finite", options.alpha, "use 1 for plain SwiGLU");
  }
  if (!std::isfinite(options.up_offset)) {
    return invalid_argument("up_offset must be finite", options.up_offset, "use 0 for plain SwiGLU");
  }
  if (options.router_weight > RouterWeightPosition::at_combine) {
    return invalid_argument("router_weight must be before_gemm2 or at_combine",
                            static_cast<uint32_t>(options.router_weight), "use one of the enumerators");
  }
  if (options.scale > ActivationScale::power_of_two) {
    return invalid_argument("activation scale must be fp32 or power_of_two", static_cast<uint32_t>(options.scale),
                            "use one of the enumerators");
  }
  return {};
}

Status validate_tuning(const LayerShape& shape, const Tuning& tuning) {
  MM_RETURN_IF_ERROR(
      in_range("threads_per_rank", tuning.threads_per_rank, 0, kMaxThreads, "use 0 to let MegaMoE choose"));
  if (tuning.pin > Pin::core) {
    return invalid_argument("pin must be automatic, none, node or core", static_cast<uint32_t>(tuning.pin),
                            "use one of the enumerators");
  }
  if (tuning.strategy > Strategy::small_batch) {
    return invalid_argument("strategy must be automatic, cooperative, pingpong or small_batch",
                            static_cast<uint32_t>(tuning.strategy), "use one of the enumerators");
  }
  if (tuning.block_m != 0 && std::find(kBlockM.begin(), kBlockM.end(), tuning.block_m) == kBlockM.end()) {
    return invalid_argument("block_m must be 16, 32, 64, 128 or 256", tuning.block_m, "use 0 to let MegaMoE choose");
  }
  MM_RETURN_IF_ERROR(multiple_of("gemm1_block_n", tuning.gemm1_block_n, flow::kScaleGroup,
                                 "a tile must hold whole scale groups; use 0 to let MegaMoE choose"));
  if (tuning.gemm1_block_n != 0) {
    const uint32_t num_blocks = flow::ceil_div(shape.intermediate, tuning.gemm1_block_n);
    if (num_blocks > flow::kMaxGemm1NBlocks) {
      return invalid_argument(fmt::format("gemm1_block_n must split intermediate {} into at most {} blocks",
                                          shape.intermediate, flow::kMaxGemm1NBlocks),
                              tuning.gemm1_block_n, "choose a wider block");
    }
  }
  return multiple_of("gemm2_block_n", tuning.gemm2_block_n, kAlignment, "use 0 to let MegaMoE choose");
}

/// A span's length against what the shape says.
Status expect_size(std::string_view what, uint32_t rank, size_t got, uint64_t wanted, std::string_view formula) {
  if (got == wanted) return {};
  return invalid_argument(fmt::format("rank {}: {} must have {} elements, {}", rank, what, wanted, formula), got,
                          "pass a span of that length");
}

Status validate_x(const LayerShape& shape, uint32_t rank, const RankInput& input) {
  const uint64_t wanted = uint64_t{input.num_tokens} * shape.hidden;
  if (const auto* bf16 = std::get_if<std::span<const Bf16>>(&input.x)) {
    return expect_size("x", rank, bf16->size(), wanted, "num_tokens * hidden");
  }
  const auto& fp8 = std::get<Fp8Activations>(input.x);
  MM_RETURN_IF_ERROR(expect_size("x", rank, fp8.values.size(), wanted, "num_tokens * hidden"));
  const uint64_t num_scales = uint64_t{input.num_tokens} * flow::ceil_div(shape.hidden, flow::kScaleGroup);
  const size_t got = std::visit([](const auto& scales) { return scales.size(); }, fp8.scales);
  return expect_size("x scales", rank, got, num_scales, "num_tokens * ceil(hidden / 128)");
}

}  // namespace

Status validate_config(const LayerConfig& config) {
  MM_RETURN_IF_ERROR(validate_shape(config.shape));
  MM_RETURN_IF_ERROR(in_range("max_tokens_per_rank", config.max_tokens_per_rank, 1, kMaxTokens,
                              "give the most tokens that one rank brings to a call"));
  MM_RETURN_IF_ERROR(validate_activation(config.activation));
  MM_RETURN_IF_ERROR(validate_tuning(config.shape, config.tuning));
  if (config.timeout.count() <= 0) {
    return invalid_argument("timeout must be positive", fmt::format("{} ms", config.timeout.count()),
                            "the default is 60000 ms");
  }
  if (config.start_timeout.count() <= 0) {
    return invalid_argument("start_timeout must be positive", fmt::format("{} ms", config.start_timeout.count()),
                            "the default is 600000 ms");
  }
  return {};
}

Status validate_io(const LayerShape& shape, uint32_t max_tokens, uint32_t rank, uint32_t num_local_experts,
                   const RankInput& input, const RankOutput& output) {
  if (input.num_tokens > max_tokens) {
    return invalid_argument(
        fmt::format("rank {}: num_tokens must be at most max_tokens_per_rank = {}", rank, max_tokens), input.num_tokens,
        "split the batch, or create the layer for more tokens");
  }
  MM_RETURN_IF_ERROR(validate_x(shape, rank, input));
  MM_RETURN_IF_ERROR(expect_size("topk_weights", rank, input.topk_weights.size(),
                                 uint64_t{input.num_tokens} * shape.top_k, "num_tokens * top_k"));
  MM_RETURN_IF_ERROR(
      expect_size("y", rank, output.y.size(), uint64_t{input.num_tokens} * shape.hidden, "num_tokens * hidden"));
  if (!output.local_expert_rows.empty()) {
    MM_RETURN_IF_ERROR(expect_size("local_expert_rows", rank, output.local_expert_rows.size(), num_local_experts,
                                   "the rank's routed experts, or be empty"));
  }
  const size_t num_ids = std::visit([](const auto& ids) { return ids.size(); }, input.topk_ids);
  return expect_size("topk_ids", rank, num_ids, uint64_t{input.num_tokens} * shape.top_k, "num_tokens * top_k");
}

Status validate_ids(const LayerShape& shape, uint32_t rank, const RouterIds& topk_ids) {
  return std::visit(
      [&](const auto& ids) -> Status {
        for (size_t i = 0; i < ids.size(); ++i) {
          const auto id = static_cast<int64_t>(ids[i]);
          if (id >= flow::kNoExpert && id < static_cast<int64_t>(shape.num_experts)) continue;
          return invalid_argument(fmt::format("rank {}: topk_ids[{}, {}] must be an expert in 0..{}, or -1 for none",
                                              rank, i / shape.top_k, i % shape.top_k, shape.num_experts - 1),
                                  id, "check the router, and that the ids' declared width is the real one");
        }
        return {};
      },
      topk_ids);
}

}  // namespace megamoe::internal
