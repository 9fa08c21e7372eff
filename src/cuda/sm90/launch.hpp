#pragma once

// Launching the kernels: every rank that lives on a device gets its own blocks of one cooperative grid.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>

#include "cuda/sm90/grids.hpp"
#include "megamoe/status.hpp"

namespace megamoe::sm90 {

std::string to_string(GridKind kind);

struct LaunchShape {
  uint32_t blocks_per_rank = 1;
  uint32_t threads_per_block = kMaxPlainThreads;  ///< whole warps
};

/// Blocks of `kind` that can be resident at once on the current device.
Result<uint32_t> max_resident_blocks(GridKind kind, const flow::Dims& dims, uint32_t threads_per_block);

/// Launches `kind` for `ranks`, all of the current device, as one grid whose blocks are all resident: they wait for
/// each other. Errors: more than kMaxVirtualRanks ranks; a grid that cannot be resident (says what would fit).
Status launch(GridKind kind, std::span<const Arguments> ranks, LaunchShape shape, cudaStream_t stream);

}  // namespace megamoe::sm90
