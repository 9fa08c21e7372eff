#include "gemm_cases.hpp"

#include <cstddef>

#include "draw.hpp"

namespace megamoe::record {

namespace {

constexpr uint64_t kSeed = 20261130;
constexpr uint32_t kBlockK = 128;

std::vector<uint8_t> draw_codes(std::size_t num_codes, Draw& draw) {
  std::vector<uint8_t> codes(num_codes);
  for (uint8_t& code : codes) {
    code = static_cast<uint8_t>(draw.bits());
    if ((code & 0x7FU) == 0x7FU) code ^= 1U;
  }
  return codes;
}

std::vector<float> draw_scales(std::size_t num_scales, Draw& draw) {
  std::vector<float> scales(num_scales);
  for (float& scale : scales) scale = static_cast<float>(draw.between(1, 1 << 16)) * 0x1p-18F;
  return scales;
}

}  // namespace

GemmCase make_gemm_case(uint32_t case_idx) {
  Draw draw(kSeed, case_idx);
  GemmCase result{.shape = kGemmShapes[case_idx], .a = {}, .b = {}, .a_scales = {}, .b_scales = {}};
  const auto [m, n, num_k_blocks] = result.shape;
  result.a = draw_codes(std::size_t{m} * num_k_blocks * kBlockK, draw);
  result.b = draw_codes(std::size_t{n} * num_k_blocks * kBlockK, draw);
  result.a_scales = draw_scales(std::size_t{m} * num_k_blocks, draw);
  result.b_scales = draw_scales(num_k_blocks, draw);
  return result;
}

ptx::TensorMapSpec gemm_map_spec(const uint8_t* base, uint32_t num_rows, uint32_t num_k_blocks, uint32_t box_rows) {
  ptx::TensorMapSpec spec;
  spec.base = const_cast<uint8_t*>(base);
  spec.num_dims = 2;
  spec.sizes[0] = uint64_t{num_k_blocks} * kBlockK;
  spec.sizes[1] = num_rows;
  spec.strides_bytes[0] = uint64_t{num_k_blocks} * kBlockK;
  spec.box[0] = kBlockK;
  spec.box[1] = box_rows;
  spec.swizzle = ptx::Swizzle::b128;
  return spec;
}

}  // namespace megamoe::record
