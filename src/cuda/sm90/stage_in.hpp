#pragma once

// stage_in: this rank's rows become e4m3 codes and scales in its workspace, where the owners of experts pull them.

#include "cuda/sm90/worker.hpp"
#include "formats/bf16.hpp"
#include "formats/e8m0.hpp"

namespace megamoe::sm90 {

/// Columns of a scale group that one lane quantises.
inline constexpr uint32_t kLaneCols = flow::kScaleGroup / simt::kWarpLanes;
static_assert(kLaneCols == 4, "a lane loads 8 bytes of BF16 and stores 4 bytes of codes");

/// One warp quantises group `group` of row `token`. Lanes beyond a short last group take part with zeros.
MM_DEVICE void quantise_group(const Arguments& arguments, uint32_t token, uint32_t group) {
  const uint32_t col = group * flow::kScaleGroup + simt::lane_idx() * kLaneCols;
  const bool has_cols = col < arguments.dims.hidden;
  uint64_t quad = 0;
  if (has_cols) {
    const auto* row = static_cast<const uint16_t*>(arguments.x) + uint64_t{token} * arguments.dims.hidden;
    quad = simt::load(reinterpret_cast<const uint64_t*>(row + col));
  }
  float values[kLaneCols];
  float amax = 0.0F;
  MM_UNROLL
  for (uint32_t i = 0; i < kLaneCols; ++i) {
    values[i] = bf16_to_float(static_cast<uint16_t>(quad >> (16U * i)));
    const float term = flow::amax_term(values[i]);
    amax = term > amax ? term : amax;
  }
  // Floats that are not negative are ordered like their bits.
  const float group_amax = bits_float(simt::reduce_max(simt::kAllLanes, float_bits(amax)));
  const float scale = flow::group_scale(group_amax, arguments.scale_rule);
  const float inverse_scale = rcp_rn(scale);
  uint32_t codes = 0;
  MM_UNROLL
  for (uint32_t i = 0; i < kLaneCols; ++i) codes |= uint32_t{flow::quantise(values[i], inverse_scale)} << (8U * i);
  const flow::Workspace own = arguments.own();
  if (has_cols) simt::store(reinterpret_cast<uint32_t*>(own.row<flow::Field::x>(token) + col), codes);
  if (simt::lane_idx() == 0) simt::store(own.row<flow::Field::x_scale>(token) + group, scale);
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
    const uint64_t num_groups = uint64_t{arguments.num_tokens} * dims.hidden_groups();
    for (uint64_t i = worker.rank_warp_idx(); i < num_groups; i += worker.num_rank_warps()) {
      quantise_group(arguments, static_cast<uint32_t>(i / dims.hidden_groups()),
                     static_cast<uint32_t>(i % dims.hidden_groups()));
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
