#pragma once

// What the host hands to the kernels of one rank, by value: a __grid_constant__ parameter, so plain C++ for the layer.

#include <cstddef>
#include <cstdint>

#include "cuda/sm90/packed_weights.hpp"
#include "cuda/sync/wait.hpp"
#include "flow/activate.hpp"
#include "flow/combine.hpp"
#include "flow/quantise.hpp"
#include "flow/route.hpp"
#include "flow/workspace.hpp"

namespace megamoe::sm90 {

/// Ranks whose memory one GPU can load from and store to.
inline constexpr uint32_t kMaxPeers = 64;

/// How the caller's rows come, and their scales.
enum class RowFormat : uint32_t { bf16, fp8_fp32_scales, fp8_e8m0_scales };
/// Type of the router's ids.
enum class IdFormat : uint32_t { int32, int64 };

/// Parts of the plain kernels that are timed on their own. Barriers: exchange, arrive_home and leave.
enum class Part : uint32_t {
  stage_in,
  count,
  prefix,
  scatter,
  exchange,
  pull,
  push,
  arrive_home,
  combine,
  reset,
  leave
};
inline constexpr uint32_t kNumParts = 11;

/// On the global timer, which all GPUs' clocks of one host need not share.
struct Period {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

struct Arguments {
  // The layer, the same on all ranks but for `rank`.
  flow::Dims dims;
  flow::WorkspaceLayout layout;
  std::byte* bases[kMaxPeers] = {};  ///< [num_ranks], workspaces as this rank addresses them
  flow::Rank rank{};
  flow::ScaleRule scale_rule = flow::ScaleRule::fp32;
  flow::RouterWeightRule weight_rule = flow::RouterWeightRule::before_gemm2;
  uint64_t timeout_ns = 0;

  // The weights of this rank's experts, in its own memory.
  PackedMatrix gemm1;
  PackedMatrix gemm2;
  flow::ActivationRule activation;

  // The call. All in this rank's memory; rows begin at multiples of 16 bytes.
  uint32_t num_tokens = 0;  ///< 0..max_tokens
  RowFormat row_format = RowFormat::bf16;
  IdFormat id_format = IdFormat::int64;
  const void* x = nullptr;              // [num_tokens, hidden], BF16 or e4m3
  const void* x_scale = nullptr;        // [num_tokens, hidden_groups], FP32 or E8M0; unused for BF16
  const void* topk_ids = nullptr;       // [num_tokens, top_k], each -1 or in 0..num_experts-1
  const float* topk_weights = nullptr;  // [num_tokens, top_k]
  const uint16_t* results = nullptr;  // [num_pool_rows, hidden], BF16 for combine to push home, or null: they are there
  uint16_t* y = nullptr;              // [num_tokens, hidden], BF16
  uint32_t* local_expert_rows = nullptr;  // [routed experts of this rank] or null
  Period* periods = nullptr;              // [blocks of this rank, kNumParts] or null

  MM_DEVICE flow::Peers peers() const { return {bases, &layout}; }
  MM_DEVICE flow::Workspace own() const { return peers().at(rank); }
  MM_DEVICE flow::Placement placement() const { return flow::Placement::of(dims); }
};

/// Read-only memory for the rules of src/flow, which ask for `view[i]`: each look is a load.
template <class T>
struct View {
  const T* first = nullptr;
  MM_DEVICE T operator[](uint32_t i) const { return simt::load(first + i); }
};

/// One token's routed ids, of either type.
struct TokenIds {
  const void* first = nullptr;
  IdFormat format = IdFormat::int64;
  MM_DEVICE int64_t operator[](uint32_t k) const {
    if (format == IdFormat::int64) return simt::load(static_cast<const int64_t*>(first) + k);
    return simt::load(static_cast<const int32_t*>(first) + k);
  }
};

MM_DEVICE TokenIds ids_of(const Arguments& arguments, flow::Token token) {
  const uint64_t id_bytes = arguments.id_format == IdFormat::int64 ? sizeof(int64_t) : sizeof(int32_t);
  const auto* first = static_cast<const std::byte*>(arguments.topk_ids);
  return {first + uint64_t{num(token)} * arguments.dims.top_k * id_bytes, arguments.id_format};
}

}  // namespace megamoe::sm90
