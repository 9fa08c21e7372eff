#pragma once

// Packing one expert's weights for the Hopper kernels, on the host.

#include <string_view>

#include "cuda/sm90/packed_weights.hpp"
#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe::sm90 {

/// Memory for one expert, of the sizes that its MatrixLayout gives.
struct ExpertMemory {
  uint8_t* gemm1_codes = nullptr;     // [layout.code_bytes()]
  ScalePair* gemm1_scales = nullptr;  // [layout.num_scales()]
  float* gemm1_bias = nullptr;        // [layout.num_rows()], or null: no expert of the rank has a bias
  uint8_t* gemm2_codes = nullptr;     // as above
  ScalePair* gemm2_scales = nullptr;
  float* gemm2_bias = nullptr;
};

/// Whether the Hopper kernels can multiply these weights: FP8 with one scale per 128x128 block, so that an n tile's
/// chunk has one scale for gate and one for up. `name` ("expert 12") begins the message. Errors: unsupported.
/// REQUIRES cpu::expert_layouts() succeeded for these weights: they fit the shape.
Status check_packable(const ExpertWeights& weights, const LayerShape& shape, std::string_view name);

bool has_bias(const ExpertWeights& weights);

/// Writes all of `memory`. REQUIRES check_packable() passed.
void pack_expert(const ExpertWeights& weights, const LayerShape& shape, const ExpertMemory& memory);

}  // namespace megamoe::sm90
