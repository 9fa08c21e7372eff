#pragma once

// Device side of wgmma.mma_async: one asm statement per n and source of A, made from the lists in wgmma_operands.hpp.

#include <cstdint>

#include "cuda/ptx/wgmma_operands.hpp"
#include "cuda/ptx/wgmma_shape.hpp"

#if defined(__CUDACC__)

namespace megamoe::ptx::detail {

/// Asm text behind "m64nN": k and formats.
template <MmaFormat kFormat>
struct WgmmaKind;
template <>
struct WgmmaKind<MmaFormat::e4m3> {
  static constexpr char kText[] = "k32.f32.e4m3.e4m3";
};
template <>
struct WgmmaKind<MmaFormat::bf16> {
  static constexpr char kText[] = "k16.f32.bf16.bf16";
};

constexpr char sign_char(Sign sign) { return sign == Sign::minus ? '-' : ' '; }
constexpr char major_char(Major major) { return major == Major::mn ? '1' : '0'; }

/// Asm text of the immediates behind scale-d when A comes from shared memory: signs, and for bf16 the majors.
template <WgmmaSpec kSpec>
struct ImmediatesShared {
  static constexpr char kText[] = {
      ',', sign_char(kSpec.a_sign),   '1', ',', sign_char(kSpec.b_sign), '1', ',', major_char(kSpec.a_major),
      ',', major_char(kSpec.b_major), '\0'};
};
template <WgmmaSpec kSpec>
requires(kSpec.format == MmaFormat::e4m3) struct ImmediatesShared<kSpec> {
  static constexpr char kText[] = {',', sign_char(kSpec.a_sign), '1', ',', sign_char(kSpec.b_sign), '1', '\0'};
};

/// The same when A comes from registers: it has no major.
template <WgmmaSpec kSpec>
struct ImmediatesRegisters {
  static constexpr char kText[] = {',', sign_char(kSpec.a_sign),   '1', ',', sign_char(kSpec.b_sign), '1',
                                   ',', major_char(kSpec.b_major), '\0'};
};
template <WgmmaSpec kSpec>
requires(kSpec.format == MmaFormat::e4m3) struct ImmediatesRegisters<kSpec> : ImmediatesShared<kSpec> {
};

template <uint32_t kN>
struct WgmmaInstruction;

// shared: operands i0 A, i1 B, i2 scale-d, i3 kind, i4 immediates.
// registers: i0 to i3 A, i4 B, i5 scale-d, i6 kind, i7 immediates.
#define MM_WGMMA_INSTRUCTION(n, i0, i1, i2, i3, i4, i5, i6, i7)                                                  \
  template <>                                                                                                    \
  struct WgmmaInstruction<n> {                                                                                   \
    template <WgmmaSpec kSpec>                                                                                   \
    static __device__ __forceinline__ void shared(float (&d)[n / 2], uint64_t a, uint64_t b, uint32_t scale_d) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i2                                                      \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n "%" #i3 " {" MM_WGMMA_NAMES_##n "}, %" #i0 ", %" #i1   \
                                                                                          ", p%" #i4 ";\n}\n"    \
                   : MM_WGMMA_D_##n                                                                              \
                   : "l"(a), "l"(b), "r"(scale_d), "C"(WgmmaKind<kSpec.format>::kText),                          \
                     "C"(ImmediatesShared<kSpec>::kText));                                                       \
    }                                                                                                            \
    template <WgmmaSpec kSpec>                                                                                   \
    static __device__ __forceinline__ void registers(float (&d)[n / 2], const uint32_t (&a)[4], uint64_t b,      \
                                                     uint32_t scale_d) {                                         \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i5                                                      \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n "%" #i6 " {" MM_WGMMA_NAMES_##n                        \
                   "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4 ", p%" #i7 ";\n}\n"                      \
                   : MM_WGMMA_D_##n                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d),                           \
                     "C"(WgmmaKind<kSpec.format>::kText), "C"(ImmediatesRegisters<kSpec>::kText));               \
    }                                                                                                            \
  };
MM_WGMMA_FOR_EACH_N(MM_WGMMA_INSTRUCTION)
#undef MM_WGMMA_INSTRUCTION

}  // namespace megamoe::ptx::detail

#endif
