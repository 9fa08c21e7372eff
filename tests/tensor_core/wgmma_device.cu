// The device side of cuda/ptx/wgmma.hpp, for check_wgmma_sass.sh: every n, both formats, both sources of A; a main loop
// with groups in flight; and one instruction twice, through the layer and by hand.

#include <cstdint>

#include "cuda/ptx/wgmma.hpp"

namespace {

using namespace megamoe::ptx;

constexpr uint32_t kBytesPerStep = 32;

template <uint32_t kN, MmaFormat kFormat>
__global__ void __launch_bounds__(kWarpgroupLanes) from_shared(float* out, uint64_t a, uint64_t b, uint32_t scale_d) {
  constexpr WgmmaSpec kSpec{kFormat, kN};
  float d[kN / 2];
  for (uint32_t i = 0; i < kN / 2; ++i) d[i] = out[threadIdx.x * kN / 2 + i];
  wgmma_pin(d);
  wgmma_fence();
  wgmma_mma_async<kSpec>(d, WgmmaDescriptor{a}, WgmmaDescriptor{b}, ScaleD{scale_d});
  wgmma_commit_group();
  wgmma_wait_group<0>();
  wgmma_pin(d);
  for (uint32_t i = 0; i < kN / 2; ++i) out[threadIdx.x * kN / 2 + i] = d[i];
}

template <uint32_t kN, MmaFormat kFormat>
__global__ void __launch_bounds__(kWarpgroupLanes) from_registers(float* out, uint4 words, uint64_t b) {
  constexpr WgmmaSpec kSpec{.format = kFormat, .n = kN, .a_sign = Sign::minus};
  const uint32_t a[4] = {words.x, words.y, words.z + threadIdx.x, words.w};
  float d[kN / 2];
  for (uint32_t i = 0; i < kN / 2; ++i) d[i] = out[threadIdx.x * kN / 2 + i];
  wgmma_pin(d);
  wgmma_fence();
  wgmma_mma_async<kSpec>(d, a, WgmmaDescriptor{b}, ScaleD::accumulate);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  wgmma_pin(d);
  for (uint32_t i = 0; i < kN / 2; ++i) out[threadIdx.x * kN / 2 + i] = d[i];
}

#define MM_INSTANTIATE(n, ...)                                                                    \
  template __global__ void from_shared<n, MmaFormat::e4m3>(float*, uint64_t, uint64_t, uint32_t); \
  template __global__ void from_shared<n, MmaFormat::bf16>(float*, uint64_t, uint64_t, uint32_t); \
  template __global__ void from_registers<n, MmaFormat::e4m3>(float*, uint4, uint64_t);           \
  template __global__ void from_registers<n, MmaFormat::bf16>(float*, uint4, uint64_t);
MM_WGMMA_FOR_EACH_N(MM_INSTANTIATE)

}  // namespace

/// Promotion every 128 of K with one group in flight, as the GEMM roles do it: 8 instructions a turn.
extern "C" __global__ void __launch_bounds__(kWarpgroupLanes)
    main_loop(float* out, uint64_t a, uint64_t b, const float* scales, uint32_t num_blocks) {
  constexpr WgmmaSpec kSpec{.format = MmaFormat::e4m3, .n = 128};
  float total[64] = {};
  for (uint32_t block = 0; block < num_blocks; block += 2) {
    float d[2][64];
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      wgmma_pin(d[half]);
      wgmma_fence();
#pragma unroll
      for (uint32_t step = 0; step < 4; ++step) {
        const uint32_t moved = (block + half) * 16384 + step * kBytesPerStep;
        wgmma_mma_async<kSpec>(d[half], advance(WgmmaDescriptor{a}, moved), advance(WgmmaDescriptor{b}, moved),
                               step == 0 ? ScaleD::overwrite : ScaleD::accumulate);
      }
      wgmma_commit_group();
      wgmma_pin(d[half]);
    }
    wgmma_wait_group<1>();
    wgmma_pin(d[0]);
    for (uint32_t i = 0; i < 64; ++i) total[i] += d[0][i] * scales[block];
    wgmma_wait_group<0>();
    wgmma_pin(d[1]);
    for (uint32_t i = 0; i < 64; ++i) total[i] += d[1][i] * scales[block + 1];
  }
  for (uint32_t i = 0; i < 64; ++i) out[threadIdx.x * 64 + i] = total[i];
}

extern "C" __global__ void by_layer(float* out, uint32_t a, uint32_t b) {
  constexpr MatrixPlace kPlace{.start = 0, .leading_bytes = 16, .stride_bytes = 1024, .swizzle = Swizzle::b128};
  MatrixPlace a_place = kPlace;
  MatrixPlace b_place = kPlace;
  a_place.start = a;
  b_place.start = b;
  float d[4] = {out[0], out[1], out[2], out[3]};
  wgmma_fence();
  wgmma_mma_async<WgmmaSpec{MmaFormat::e4m3, 8}>(d, encode(a_place), encode(b_place), ScaleD::accumulate);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (uint32_t i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = d[i];
}

extern "C" __global__ void by_hand(float* out, uint32_t a, uint32_t b) {
  const uint64_t layout = uint64_t{1} << 62 | uint64_t{64} << 32 | uint64_t{1} << 16;
  const uint64_t a_bits = layout | ((a >> 4) & 0x3FFF);
  const uint64_t b_bits = layout | ((b >> 4) & 0x3FFF);
  float d[4] = {out[0], out[1], out[2], out[3]};
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, 1, 1, 1;\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a_bits), "l"(b_bits));
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  for (uint32_t i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = d[i];
}
