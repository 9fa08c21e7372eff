#pragma once

// Operands of the recorded GEMMs (gemm_kernel.hpp), drawn from the case's number.

#include <array>
#include <cstdint>
#include <vector>

#include "cuda/ptx/tensor_map.hpp"

namespace megamoe::record {

struct GemmShape {
  uint32_t m, n, num_k_blocks;
};

inline constexpr std::array<GemmShape, 3> kGemmShapes = {{{128, 96, 1}, {200, 192, 5}, {64, 96, 16}}};

struct GemmCase {
  GemmShape shape;
  std::vector<uint8_t> a;       // [m, K] e4m3, every finite code
  std::vector<uint8_t> b;       // [n, K]
  std::vector<float> a_scales;  // [num_k_blocks, m]
  std::vector<float> b_scales;  // [num_k_blocks]
};

GemmCase make_gemm_case(uint32_t case_idx);

/// What the tensor map of A [num_rows, K] with boxes of `box_rows` x 128 is made from.
ptx::TensorMapSpec gemm_map_spec(const uint8_t* base, uint32_t num_rows, uint32_t num_k_blocks, uint32_t box_rows);

}  // namespace megamoe::record
