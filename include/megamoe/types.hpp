#pragma once

// Element types, weight and activation formats, and the shape of one MoE layer.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace megamoe {

/// Storage-only element types: the bits as they stand in files and buffers.
struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;
};
/// FP8 e4m3 "fn": no infinities, NaN is 0x7F and 0xFF, largest finite value 448.
struct Fp8E4m3 {
  uint8_t bits = 0;
  friend bool operator==(Fp8E4m3, Fp8E4m3) = default;
};
/// Power-of-two scale 2^(bits - 127); 255 is NaN, 0 is 2^-127.
struct E8m0 {
  uint8_t bits = 0;
  friend bool operator==(E8m0, E8m0) = default;
};

/// One scale per token and kActivationGroup columns, for activations and for the intermediate.
inline constexpr uint32_t kActivationGroup = 128;
/// One E8M0 scale per row and kMxfp4Group columns of an MXFP4 weight.
inline constexpr uint32_t kMxfp4Group = 32;

/// Shape of one MoE layer over the whole expert-parallel group.
struct LayerShape {
  uint32_t hidden = 0;              ///< H: columns of a token; a multiple of 16
  uint32_t intermediate = 0;        ///< I: columns between gemm1 and gemm2 of one expert; a multiple of 16
  uint32_t num_experts = 0;         ///< E: routed experts of the group, 1..1024
  uint32_t top_k = 0;               ///< K: routed choices per token, 1..32
  uint32_t num_shared_experts = 0;  ///< experts of the same intermediate that every token visits with weight 1
};

// ---------------------------------------------------------------- weights

enum class WeightFormat : uint8_t {
  fp8_block,  ///< e4m3, one scale (F32 or E8M0) per block_rows x block_cols
  mxfp4,      ///< e2m1, two per byte (low nibble = even column), one E8M0 scale per row and 32 columns
  bf16,       ///< no scales
};

/// "fp8", "mxfp4", "bf16".
std::string_view to_string(WeightFormat format);

/// Where gate and up rows of one expert stand.
enum class GateUpLayout : uint8_t {
  separate,      ///< two matrices, `gate` and `up`
  concatenated,  ///< one matrix: rows [0, I) are gate, rows [I, 2I) are up
  interleaved,   ///< one matrix: row 2i is gate i, row 2i+1 is up i (gpt-oss)
};

/// A read-only view of one projection's weights, row-major [num_rows, num_cols]; each row is one output column of
/// the layer's product (as in torch.nn.Linear). The memory belongs to the caller and must outlive the call.
struct WeightMatrix {
  WeightFormat format = WeightFormat::bf16;
  uint32_t num_rows = 0;
  uint32_t num_cols = 0;              ///< logical columns (an MXFP4 row holds num_cols / 2 bytes)
  std::span<const std::byte> values;  ///< fp8: rows*cols bytes, mxfp4: rows*cols/2, bf16: rows*cols*2
  uint32_t block_rows = 0;            ///< rows one scale covers (fp8_block: from the file; mxfp4: 1; bf16: 0)
  uint32_t block_cols = 0;            ///< columns one scale covers (fp8_block: from the file; mxfp4: 32; bf16: 0)
  /// [ceil(num_rows / block_rows), ceil(num_cols / block_cols)]; empty for bf16.
  std::variant<std::span<const float>, std::span<const E8m0>> scales;
};

/// All weights of one expert. `separate` uses gate and up; the other layouts use gate_up.
struct ExpertWeights {
  GateUpLayout layout = GateUpLayout::separate;
  WeightMatrix gate;     ///< [I, H]
  WeightMatrix up;       ///< [I, H]
  WeightMatrix gate_up;  ///< [2I, H]
  WeightMatrix down;     ///< [H, I]
  // Optional biases, FP32; an empty span means none. gate_up_bias is laid out like gate_up's rows.
  std::span<const float> gate_bias;     ///< [I]
  std::span<const float> up_bias;       ///< [I]
  std::span<const float> gate_up_bias;  ///< [2I]
  std::span<const float> down_bias;     ///< [H]
};

// ---------------------------------------------------------------- options

/// Where a token's router weight is multiplied in.
enum class RouterWeightPosition : uint8_t {
  before_gemm2,  ///< into the activated intermediate, before it is quantised
  at_combine,    ///< into the expert's partial result, when partials are added
};

/// How a scale of a quantised activation group is chosen from its absolute maximum.
enum class ActivationScale : uint8_t {
  fp32,          ///< amax / 448
  power_of_two,  ///< the smallest power of two that is not below amax / 448 (UE8M0)
};

/// out = gate' * sigmoid(alpha * gate') * (up' + up_offset), with gate' = min(gate + gate_bias, limit) and
/// up' = clamp(up + up_bias, -limit, limit).
struct ActivationOptions {
  std::optional<float> limit;  ///< positive; none = no clamp
  float alpha = 1.0F;
  float up_offset = 0.0F;
  RouterWeightPosition router_weight = RouterWeightPosition::before_gemm2;
  ActivationScale scale = ActivationScale::fp32;
};

// ---------------------------------------------------------------- inputs and outputs of one rank

/// FP8 activations with one scale per token and 128 columns.
struct Fp8Activations {
  std::span<const Fp8E4m3> values;  ///< [num_tokens, H]
  /// [num_tokens, ceil(H / 128)]
  std::variant<std::span<const float>, std::span<const E8m0>> scales;
};

/// What one rank brings to a call.
struct RankInput {
  uint32_t num_tokens = 0;                                ///< 0..max_tokens_per_rank
  std::variant<std::span<const Bf16>, Fp8Activations> x;  ///< [num_tokens, H]
  /// [num_tokens, K]: global expert ids; -1 means "no expert".
  std::variant<std::span<const int32_t>, std::span<const int64_t>> topk_ids;
  std::span<const float> topk_weights;  ///< [num_tokens, K], used verbatim
};

/// What one rank takes from a call.
struct RankOutput {
  std::span<Bf16> y;  ///< [num_tokens, H], written whole on success, untouched on an argument error
  /// Rows that each local expert received in this call, [num_local_experts] routed experts in id order; may be empty.
  std::span<uint32_t> local_expert_rows;
};

}  // namespace megamoe
