#pragma once

// ldmatrix: four 8 x 8 matrices of 16-bit elements from shared memory to the registers of a warp, laid out as the
// tensor core wants A. In bytes: 8 rows of 16; lane l gets bytes 4 (l % 4) .. 4 (l % 4) + 3 of row l / 4 of each
// matrix.

#include <cstdint>

#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"

namespace megamoe::ptx {

/// Lane 8 m + i names row i of matrix m: 16 bytes of shared memory, aligned to 16. All lanes of the warp.
MM_DEVICE void load_matrices(const uint8_t* row, uint32_t (&words)[4] MM_WHERE) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  const uint32_t lane = simt::lane_idx();
  for (uint32_t m = 0; m < 4U; ++m) {
    const uint8_t* from = simt::shfl(simt::kAllLanes, row, 8U * m + lane / 4U, simt::kWarpLanes, where);
    words[m] = simt::load(reinterpret_cast<const uint32_t*>(from + lane % 4U * 4U), where);
  }
#endif
}

}  // namespace megamoe::ptx
