#include "cuda/sm90/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/host/runtime.hpp"
#include "cuda/sm90/grids.hpp"
#include "cuda/sm90/plain_kernels.hpp"
#include "host/errors.hpp"

namespace megamoe::sm90 {
namespace {

template <uint32_t kNumRanks>
const void* gemm_function(Strategy strategy, Phases phases) {
  switch (strategy) {
    case Strategy::cooperative: return gemm_grid_function<Strategy::cooperative, kNumRanks>(phases);
    case Strategy::pingpong: return gemm_grid_function<Strategy::pingpong, kNumRanks>(phases);
    case Strategy::small_batch: return gemm_grid_function<Strategy::small_batch, kNumRanks>(phases);
  }
  return nullptr;
}

/// The grid function for one rank or for several.
template <uint32_t kNumRanks>
const void* grid_function(GridKind kind) {
  switch (kind.kernel) {
    case Kernel::dispatch: return dispatch_grid_function<kNumRanks>();
    case Kernel::combine: return combine_grid_function<kNumRanks>();
    case Kernel::gemm1: return gemm_function<kNumRanks>(kind.strategy, Phases::gemm1);
    case Kernel::gemm2: return gemm_function<kNumRanks>(kind.strategy, Phases::gemm2);
    case Kernel::gemms: return gemm_function<kNumRanks>(kind.strategy, Phases::both);
    case Kernel::meet: return meet_grid_function<kNumRanks>();
  }
  return nullptr;
}

template <Strategy kStrategy>
uint32_t gemm_shared_bytes(const flow::Dims& dims) {
  // All phases are alike.
  return GemmShared<chain_config(kStrategy, Phases::gemm1)>::num_bytes(dims);
}

uint32_t shared_bytes_of(GridKind kind, const flow::Dims& dims) {
  const bool multiplies = kind.kernel == Kernel::gemm1 || kind.kernel == Kernel::gemm2 || kind.kernel == Kernel::gemms;
  if (!multiplies) return SharedPlan::num_bytes(dims);
  switch (kind.strategy) {
    case Strategy::cooperative: return gemm_shared_bytes<Strategy::cooperative>(dims);
    case Strategy::pingpong: return gemm_shared_bytes<Strategy::pingpong>(dims);
    case Strategy::small_batch: return gemm_shared_bytes<Strategy::small_batch>(dims);
  }
  return 0;
}

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::cooperative: return "cooperative";
    case Strategy::pingpong: return "pingpong";
    case Strategy::small_batch: return "small batch";
  }
  return "unknown";
}

Result<uint32_t> max_resident(const void* function, uint32_t threads_per_block, uint32_t shared_bytes) {
  int device = 0;
  int num_sms = 0;
  int blocks_per_sm = 0;
  MM_RETURN_IF_ERROR(cuda::check(cudaGetDevice(&device), "cudaGetDevice"));
  MM_RETURN_IF_ERROR(
      cuda::check(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute"));
  MM_RETURN_IF_ERROR(cuda::check(
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
      "raising a kernel's shared memory limit"));
  MM_RETURN_IF_ERROR(cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                     &blocks_per_sm, function, static_cast<int>(threads_per_block), shared_bytes),
                                 "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return static_cast<uint32_t>(blocks_per_sm) * static_cast<uint32_t>(num_sms);
}

template <uint32_t kNumRanks>
Status launch_grid(GridKind kind, std::span<const Arguments> ranks, LaunchShape shape, cudaStream_t stream) {
  const void* function = grid_function<kNumRanks>(kind);
  const uint32_t shared_bytes = shared_bytes_of(kind, ranks.front().dims);
  const auto num_resident = max_resident(function, shape.threads_per_block, shared_bytes);
  if (!num_resident) return num_resident.status();
  const uint32_t num_blocks = static_cast<uint32_t>(ranks.size()) * shape.blocks_per_rank;
  if (num_blocks == 0 || num_blocks > *num_resident) {
    return invalid_argument(
        fmt::format(
            "the blocks of {} must all be resident at once, 1 to {} of {} threads and {} bytes of shared memory",
            to_string(kind), *num_resident, shape.threads_per_block, shared_bytes),
        fmt::format("{} ranks with {} blocks each", ranks.size(), shape.blocks_per_rank), "ask for fewer blocks");
  }
  RankArguments<kNumRanks> arguments;
  std::copy(ranks.begin(), ranks.end(), arguments.ranks);
  void* parameters[] = {&arguments, &shape.blocks_per_rank};
  return cuda::check(cudaLaunchCooperativeKernel(function, dim3(num_blocks), dim3(shape.threads_per_block), parameters,
                                                 shared_bytes, stream),
                     fmt::format("launching {}", to_string(kind)));
}

}  // namespace

std::string to_string(GridKind kind) {
  switch (kind.kernel) {
    case Kernel::dispatch: return "dispatch";
    case Kernel::combine: return "combine";
    case Kernel::gemm1: return fmt::format("gemm1, {}", name_of(kind.strategy));
    case Kernel::gemm2: return fmt::format("gemm2, {}", name_of(kind.strategy));
    case Kernel::gemms: return fmt::format("gemm1 and gemm2, {}", name_of(kind.strategy));
    case Kernel::meet: return "meet";
  }
  return "unknown";
}

Result<uint32_t> max_resident_blocks(GridKind kind, const flow::Dims& dims, uint32_t threads_per_block) {
  return max_resident(grid_function<1>(kind), threads_per_block, shared_bytes_of(kind, dims));
}

Status launch(GridKind kind, std::span<const Arguments> ranks, LaunchShape shape, cudaStream_t stream) {
  if (ranks.empty() || ranks.size() > kMaxVirtualRanks) {
    return invalid_argument(fmt::format("one GPU must play 1 to {} ranks", kMaxVirtualRanks), ranks.size(),
                            "use more GPUs or fewer ranks");
  }
  return ranks.size() == 1 ? launch_grid<1>(kind, ranks, shape, stream)
                           : launch_grid<kMaxVirtualRanks>(kind, ranks, shape, stream);
}

}  // namespace megamoe::sm90
