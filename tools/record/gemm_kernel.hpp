#pragma once

// A small FP8 GEMM built the way the layer's kernels are: a producer that loads tiles by tensor copies, a ring of
// stages guarded by mbarriers, and two warpgroups that multiply and promote every 128 of K. One source for GPU and
// emulator.

#include <cstdint>

#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/index.hpp"
#include "cuda/simt/memory.hpp"
#include "formats/platform.hpp"

namespace megamoe::record {

inline constexpr uint32_t kGemmBlockM = 128;  // two warpgroups of 64 rows
inline constexpr uint32_t kGemmBlockN = 96;
inline constexpr uint32_t kGemmBlockK = 128;  // one row of swizzle b128
inline constexpr uint32_t kGemmThreads = 384;
inline constexpr uint32_t kGemmStages = 3;
inline constexpr uint32_t kGemmABytes = kGemmBlockM * kGemmBlockK;
inline constexpr uint32_t kGemmBBytes = kGemmBlockN * kGemmBlockK;
inline constexpr uint32_t kGemmStageBytes = kGemmABytes + kGemmBBytes;
inline constexpr uint32_t kGemmSharedBytes = kGemmStages * (kGemmStageBytes + 2 * sizeof(uint64_t));
inline constexpr ptx::WgmmaSpec kGemmSpec{.format = ptx::MmaFormat::e4m3, .n = kGemmBlockN};

/// D[m, n] = sum over blocks of 128 of K of (A * B^T) * a_scales * b_scales.
struct GemmArguments {
  uint32_t m;  // rows beyond it are read as zeros and not written
  uint32_t n;  // a multiple of kGemmBlockN
  uint32_t num_k_blocks;
  const ptx::TensorMap* a;  // e4m3 [m, num_k_blocks * 128], boxes of 128 x 128 bytes, swizzle b128
  const ptx::TensorMap* b;  // e4m3 [n, num_k_blocks * 128], boxes of 96 x 128 bytes, swizzle b128
  const float* a_scales;    // [num_k_blocks, m]
  const float* b_scales;    // [num_k_blocks]
  float* d;                 // [m, n]
};

/// One stage of the ring, and whether its phase is odd.
struct GemmStage {
  uint8_t* shared;
  uint32_t stage_idx = 0;
  uint32_t parity = 0;

  MM_DEVICE uint8_t* a() const { return shared + stage_idx * kGemmStageBytes; }
  MM_DEVICE uint8_t* b() const { return a() + kGemmABytes; }
  MM_DEVICE uint64_t* full() const {
    return reinterpret_cast<uint64_t*>(shared + kGemmStages * kGemmStageBytes) + stage_idx;
  }
  MM_DEVICE uint64_t* empty() const { return full() + kGemmStages; }
  MM_DEVICE void step() {
    stage_idx = stage_idx + 1 == kGemmStages ? 0 : stage_idx + 1;
    parity ^= stage_idx == 0 ? 1U : 0U;
  }
};

MM_DEVICE void gemm_produce(const GemmArguments& arguments, GemmStage stage, uint32_t first_row,
                            uint32_t first_column) {
  for (uint32_t k_block = 0; k_block < arguments.num_k_blocks; ++k_block, stage.step()) {
    const auto k = static_cast<int32_t>(k_block * kGemmBlockK);
    const int32_t a_box[2] = {k, static_cast<int32_t>(first_row)};
    const int32_t b_box[2] = {k, static_cast<int32_t>(first_column)};
    ptx::mbarrier_wait(stage.empty(), stage.parity ^ 1U);
    ptx::mbarrier_arrive_expect_tx(stage.full(), kGemmStageBytes);
    ptx::tensor_load(stage.a(), arguments.a, a_box, stage.full());
    ptx::tensor_load(stage.b(), arguments.b, b_box, stage.full());
  }
}

MM_DEVICE void gemm_consume(const GemmArguments& arguments, GemmStage stage, uint32_t first_row,
                            uint32_t first_column) {
  constexpr uint32_t kNumRegisters = kGemmBlockN / 2;
  constexpr uint32_t kPatternBytes = ptx::swizzle_pattern_bytes(ptx::Swizzle::b128);
  const uint32_t lane = simt::thread_idx() % ptx::kWarpgroupLanes;
  const uint32_t half = simt::warpgroup_idx() - 1U;  // warpgroup 0 produces
  const uint32_t rows[2] = {first_row + half * 64U + ptx::d_row(lane, 0), first_row + half * 64U + ptx::d_row(lane, 2)};
  float total[kNumRegisters] = {};
  float d[kNumRegisters] = {};
  for (uint32_t k_block = 0; k_block < arguments.num_k_blocks; ++k_block, stage.step()) {
    ptx::MatrixPlace a_place{.start = simt::shared_address(stage.a()) + half * 64U * kGemmBlockK,
                             .leading_bytes = 16,
                             .stride_bytes = kPatternBytes,
                             .swizzle = ptx::Swizzle::b128};
    ptx::MatrixPlace b_place = a_place;
    b_place.start = simt::shared_address(stage.b());
    ptx::mbarrier_wait(stage.full(), stage.parity);
    ptx::wgmma_pin(d);
    ptx::wgmma_fence();
    MM_UNROLL
    for (uint32_t step = 0; step < kGemmBlockK / ptx::kWgmmaOperandBytes; ++step) {
      ptx::wgmma_mma_async<kGemmSpec>(d, ptx::advance(ptx::encode(a_place), step * ptx::kWgmmaOperandBytes),
                                      ptx::advance(ptx::encode(b_place), step * ptx::kWgmmaOperandBytes),
                                      step == 0U ? ptx::ScaleD::overwrite : ptx::ScaleD::accumulate);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(d);
    if (simt::lane_idx() == 0U) ptx::mbarrier_arrive(stage.empty());

    const float b_scale = simt::load(arguments.b_scales + k_block);
    float scales[2];
    for (uint32_t i = 0; i < 2U; ++i) {
      const bool is_row = rows[i] < arguments.m;
      scales[i] = is_row ? mul_rn(simt::load(arguments.a_scales + k_block * arguments.m + rows[i]), b_scale) : 0.0F;
    }
    MM_UNROLL
    for (uint32_t i = 0; i < kNumRegisters; ++i) total[i] = fma_rn(d[i], scales[(i >> 1U) & 1U], total[i]);
  }
  MM_UNROLL
  for (uint32_t i = 0; i < kNumRegisters; ++i) {
    const uint32_t row = rows[(i >> 1U) & 1U];
    if (row >= arguments.m) continue;
    simt::store(arguments.d + row * arguments.n + first_column + ptx::d_column(lane, i), total[i]);
  }
}

/// One tile per block, column tiles of one row tile side by side; kGemmThreads threads, kGemmSharedBytes.
MM_DEVICE void gemm_kernel(const GemmArguments& arguments) {
  const GemmStage ring{.shared = simt::dynamic_shared()};
  if (simt::thread_idx() == 0U) {
    for (GemmStage stage = ring; stage.parity == 0U; stage.step()) {
      ptx::mbarrier_init(stage.full(), 1);
      ptx::mbarrier_init(stage.empty(), (kGemmThreads - ptx::kWarpgroupLanes) / simt::kWarpLanes);
    }
    ptx::fence_mbarrier_init();
  }
  simt::sync_threads();
  const uint32_t num_column_tiles = arguments.n / kGemmBlockN;
  const uint32_t first_row = simt::block_idx() / num_column_tiles * kGemmBlockM;
  const uint32_t first_column = simt::block_idx() % num_column_tiles * kGemmBlockN;
  if (simt::warpgroup_idx() > 0U) {
    gemm_consume(arguments, ring, first_row, first_column);
  } else if (simt::thread_idx() == 0U) {
    gemm_produce(arguments, ring, first_row, first_column);
  }
}

}  // namespace megamoe::record
