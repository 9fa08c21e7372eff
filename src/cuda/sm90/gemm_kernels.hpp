#pragma once

// gemm1 and gemm2 as kernels of their own: the middle of the chain dispatch, gemm1, gemm2, combine.
//
// REQUIRES of both: kGemmThreads threads, GemmShared::num_bytes of dynamic shared memory, dims.block_m at most the
// config's, dims.gemm1_block_n == kGemm1BlockN and gemm2_block_n == kGemm2BlockN, and the kernels before them have
// ended or run on the same rank as well: gemm1 waits for rows, gemm2 for tiles of gemm1.

#include "cuda/sm90/role_multiply.hpp"
#include "cuda/sm90/role_produce.hpp"

namespace megamoe::sm90 {

/// The block's threads copy the arguments to shared memory. Read from there, what a tile needs costs no register
/// between tiles; kernel parameters are constants that the compiler keeps at hand until it has to spill them.
MM_DEVICE void copy_arguments(const Arguments& from, Arguments* to) {
  static_assert(sizeof(Arguments) % sizeof(uint64_t) == 0);
  const auto* bytes = reinterpret_cast<const std::byte*>(&from);
  auto* words = reinterpret_cast<uint64_t*>(to);
  for (uint32_t i = simt::thread_idx(); i < sizeof(Arguments) / sizeof(uint64_t); i += simt::num_threads()) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i * sizeof(word), sizeof(word));
    simt::store(words + i, word);
  }
}

/// One thread makes the rings; all may use them, and the arguments' copy, afterwards.
template <GemmConfig kConfig>
MM_DEVICE void init_gemm(const GemmWorker<kConfig>& gemm, const Arguments& arguments) {
  copy_arguments(arguments, gemm.shared.arguments);
  if (simt::thread_idx() == 0) {
    gemm.ring().init(kNumMathWarps);
    gemm.note_ring().init(kNumMathWarps);
    for (uint32_t i = 0; i < kTileSlots; ++i) simt::store(gemm.shared.tally + i, 0U);
  }
  simt::sync_threads();
}

/// Producer and math groups, to the end of the block's tiles or to a failed wait, which the fault record tells.
template <GemmConfig kConfig>
MM_DEVICE void run_roles(const GemmWorker<kConfig>& gemm) {
  if (simt::warpgroup_idx() == 0) {
    simt::shrink_registers<kProducerRegisters>();
    if (simt::warp_idx_uniform() == 0) role_produce(gemm);
  } else {
    simt::grow_registers<kMathRegisters>();
    role_multiply(gemm);
  }
}

/// All tiles of the config's phases. Block `worker_idx` of the rank's `num_workers`.
template <GemmConfig kConfig>
MM_DEVICE void gemm_kernel(const Arguments& arguments, uint32_t worker_idx, uint32_t num_workers) {
  const auto shared = GemmWorker<kConfig>::Shared::carve(simt::dynamic_shared(), arguments.dims);
  const Worker worker{*shared.arguments, SharedPlan::carve(shared.end, arguments.dims), worker_idx, num_workers};
  const GemmWorker<kConfig> gemm{worker, shared};
  init_gemm(gemm, arguments);
  run_roles(gemm);
}

}  // namespace megamoe::sm90
