#pragma once

// stage_in: this rank's rows become e4m3 codes and scales in its workspace, where the owners of experts pull them.

#include "cuda/sm90/convert_pair.hpp"
#include "cuda/sm90/worker.hpp"
#include "formats/bf16.hpp"
#include "formats/e8m0.hpp"

namespace megamoe::sm90 {

/// Columns of a scale group that one lane quantises: a half warp takes a group, 16 bytes of BF16 a lane.
inline constexpr uint32_t kLaneCols = 8;
inline constexpr uint32_t kGroupLanes = flow::kScaleGroup / kLaneCols;
static_assert(2U * kGroupLanes == simt::kWarpLanes);
/// Groups that a half warp has under way at once.
inline constexpr uint32_t kGroupsInFlight = 4;

MM_DEVICE float bf16_of_pair(uint32_t pair, uint32_t idx) {
  return bits_float(idx == 0U ? pair << 16U : pair & 0xFFFF0000U);
}

/// Two BF16 values as codes.
MM_DEVICE uint32_t quantise_bf16_pair(uint32_t pair, float inverse_scale) {
  return quantise_pair(bf16_of_pair(pair, 0), bf16_of_pair(pair, 1), inverse_scale);
}

/// A half warp quantises the group whose columns `vec` holds, 8 BF16 a lane.
MM_DEVICE void quantise_group(const Arguments& arguments, uint32_t token, uint32_t group, const simt::Vec4& vec) {
  const uint32_t words[4] = {vec.x, vec.y, vec.z, vec.w};
  // Floats that are not negative are ordered like their bits.
  uint32_t amax_bits = 0;
  MM_UNROLL
  for (const uint32_t word : words) {
    const uint32_t low = float_bits(flow::amax_term(bf16_of_pair(word, 0)));
    const uint32_t high = float_bits(flow::amax_term(bf16_of_pair(word, 1)));
    amax_bits = amax_bits > low ? amax_bits : low;
    amax_bits = amax_bits > high ? amax_bits : high;
  }
  MM_UNROLL
  for (uint32_t lane_mask = kGroupLanes / 2U; lane_mask > 0U; lane_mask /= 2U) {
    const uint32_t other = simt::shfl_xor(simt::kAllLanes, amax_bits, lane_mask);
    amax_bits = amax_bits > other ? amax_bits : other;
  }
  const float scale = flow::group_scale(bits_float(amax_bits), arguments.scale_rule);
  const float inverse_scale = rcp_rn(scale);
  const uint32_t codes[2] = {
      quantise_bf16_pair(words[0], inverse_scale) | quantise_bf16_pair(words[1], inverse_scale) << 16U,
      quantise_bf16_pair(words[2], inverse_scale) | quantise_bf16_pair(words[3], inverse_scale) << 16U};
  const uint32_t lane = simt::lane_idx() % kGroupLanes;
  const uint32_t col = group * flow::kScaleGroup + lane * kLaneCols;
  if (token >= arguments.num_tokens || col >= arguments.dims.hidden) return;
  const flow::Workspace own = arguments.own();
  simt::store(reinterpret_cast<uint64_t*>(own.row<flow::Field::x>(token) + col),
              uint64_t{codes[0]} | uint64_t{codes[1]} << 32U);
  if (lane == 0) simt::store(own.row<flow::Field::x_scale>(token) + group, scale);
}

/// One warp quantises groups first .. first + 2 * kGroupsInFlight - 1 of all rows' groups; those beyond the last row
/// are zeros that go nowhere.
MM_DEVICE void quantise_groups(const Arguments& arguments, uint32_t first) {
  const uint32_t num_groups = arguments.dims.hidden_groups();
  simt::Vec4 vecs[kGroupsInFlight];
  uint32_t tokens[kGroupsInFlight];
  uint32_t groups[kGroupsInFlight];
  MM_UNROLL
  for (uint32_t i = 0; i < kGroupsInFlight; ++i) {
    const uint32_t idx = first + 2U * i + simt::lane_idx() / kGroupLanes;
    tokens[i] = idx / num_groups;
    groups[i] = idx % num_groups;
    const uint32_t col = groups[i] * flow::kScaleGroup + simt::lane_idx() % kGroupLanes * kLaneCols;
    const auto* row = static_cast<const uint16_t*>(arguments.x) + uint64_t{tokens[i]} * arguments.dims.hidden;
    vecs[i] = tokens[i] < arguments.num_tokens && col < arguments.dims.hidden
                  ? simt::load(reinterpret_cast<const simt::Vec4*>(row + col))
                  : simt::Vec4{};
  }
  MM_UNROLL
  for (uint32_t i = 0; i < kGroupsInFlight; ++i) quantise_group(arguments, tokens[i], groups[i], vecs[i]);
}

/// One warp copies a row that is FP8 already; only the scales may change their type.
MM_DEVICE void copy_fp8_row(const Arguments& arguments, uint32_t token) {
  const flow::Dims& dims = arguments.dims;
  const flow::Workspace own = arguments.own();
  const auto* from = static_cast<const uint8_t*>(arguments.x) + uint64_t{token} * dims.hidden;
  uint8_t* to = own.row<flow::Field::x>(token);
  for (uint32_t col = simt::lane_idx() * 16U; col < dims.hidden; col += simt::kWarpLanes * 16U) {
    simt::store(reinterpret_cast<simt::Vec4*>(to + col), simt::load(reinterpret_cast<const simt::Vec4*>(from + col)));
  }
  const uint64_t first = uint64_t{token} * dims.hidden_groups();
  for (uint32_t g = simt::lane_idx(); g < dims.hidden_groups(); g += simt::kWarpLanes) {
    const float scale = arguments.row_format == RowFormat::fp8_e8m0_scales
                            ? e8m0_to_float(simt::load(static_cast<const uint8_t*>(arguments.x_scale) + first + g))
                            : simt::load(static_cast<const float*>(arguments.x_scale) + first + g);
    simt::store(own.row<flow::Field::x_scale>(token) + g, scale);
  }
}

MM_DEVICE void stage_in(const Worker& worker) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  if (arguments.row_format == RowFormat::bf16) {
    const uint32_t num_groups = arguments.num_tokens * dims.hidden_groups();
    constexpr uint32_t kStep = 2U * kGroupsInFlight;
    for (uint32_t first = worker.rank_warp_idx() * kStep; first < num_groups;
         first += worker.num_rank_warps() * kStep) {
      quantise_groups(arguments, first);
    }
  } else {
    for (uint32_t t = worker.rank_warp_idx(); t < arguments.num_tokens; t += worker.num_rank_warps()) {
      copy_fp8_row(arguments, t);
    }
  }
  float* weights = arguments.own().get<flow::Field::topk_weight>();
  const uint64_t num_weights = uint64_t{arguments.num_tokens} * dims.top_k;
  for (uint64_t i = worker.rank_thread_idx(); i < num_weights; i += worker.num_rank_threads()) {
    simt::store(weights + i, simt::load(arguments.topk_weights + i));
  }
}

}  // namespace megamoe::sm90
