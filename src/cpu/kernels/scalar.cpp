// Kernels for any CPU: one lane, and a multiply-add that is exact in software where the CPU has none.

#include "cpu/kernels/generic.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"

namespace megamoe::cpu {
namespace {

struct Lane {
  static constexpr uint32_t kLanes = 1;
  static constexpr uint32_t kMaxRows = 1;
  float value;

  static Lane broadcast(float x) { return {x}; }
  static Lane load(const float* p) { return {*p}; }
  void store(float* p) const { *p = value; }

  static void expand_e4m3(const uint8_t* codes, float* w) {
    for (uint32_t i = 0; i < kPanelCols; ++i) w[i] = e4m3_to_float(codes[i]);
  }
  static void expand_e2m1(const uint8_t* codes, float* w) {
    for (uint32_t i = 0; i < kPanelCols; ++i) {
      w[i] = e2m1_to_float(e2m1_even_column(codes[i]));
      w[kPanelCols + i] = e2m1_to_float(e2m1_odd_column(codes[i]));
    }
  }
  static void expand_bf16(const uint8_t* codes, float* w) {
    for (uint32_t i = 0; i < kPanelCols; ++i) {
      uint16_t bits;
      __builtin_memcpy(&bits, codes + 2 * i, sizeof(bits));
      w[i] = bf16_to_float(bits);
    }
  }
};

Lane mul(Lane a, Lane b) { return {mul_rn(a.value, b.value)}; }
Lane fma(Lane a, Lane b, Lane c) { return {fma_rn(a.value, b.value, c.value)}; }

}  // namespace

constexpr Kernels kScalarKernels = make_kernels<Lane>(Isa::scalar);

}  // namespace megamoe::cpu
