// Kernels for any CPU: one lane, and a multiply-add that is exact in software where the CPU has none.

#include "cpu/kernels/generic.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace megamoe::cpu {
namespace {

struct Lane {
  using Words = uint32_t;
  static constexpr uint32_t kLanes = 1;
  static constexpr uint32_t kMaxRows = 1;
  static constexpr uint32_t kMultipliedPanels = 1;
  static constexpr uint32_t streamed_panels(uint32_t) { return 1; }
  static constexpr Factors kFp8{};
  static constexpr Factors kMxfp4{};
  float value;

  static Lane broadcast(float x) { return {x}; }
  static Lane load(const float* p) { return {*p}; }
  void store(float* p) const { *p = value; }

  static Words load_words(const uint8_t* p) {
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return word;
  }
  template <int j>
  static Lane e4m3_value(Words word) {
    return {e4m3_to_float(static_cast<uint8_t>(word >> (8 * j)))};
  }
  static Lane with_nan(Lane x) { return x; }
  template <Part kPart>
  static Words e2m1_part(Words word) {
    return kPart == Part::low ? word : word >> 4;
  }
  template <int j>
  static Lane e2m1_value(Words part) {
    return {e2m1_to_float(part >> (8 * j) & 15U)};
  }
  template <int j>
  static Lane bf16_half(Words word) {
    return {bits_float(j == 0 ? word << 16 : word & 0xFFFF0000U)};
  }
  static Lane e8m0_scales(const uint8_t* code) { return {e8m0_to_float(*code)}; }
  static void decode_e4m3(const uint8_t* codes, float factor, float* x) {
    for (uint32_t i = 0; i < kPanelCols; ++i) x[i] = mul_rn(e4m3_to_float(codes[i]), factor);
  }
};

Lane mul(Lane a, Lane b) { return {mul_rn(a.value, b.value)}; }
Lane fma(Lane a, Lane b, Lane c) { return {fma_rn(a.value, b.value, c.value)}; }

}  // namespace

constexpr Kernels kScalarKernels = make_kernels<Fp32Steps<Lane>>(Isa::scalar, "scalar");

}  // namespace megamoe::cpu
