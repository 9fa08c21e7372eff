#include "cuda/sm90/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/host/runtime.hpp"
#include "cuda/sm90/grids.hpp"
#include "cuda/sm90/plain_kernels.hpp"
#include "host/errors.hpp"

namespace megamoe::sm90 {
namespace {

/// The grid function of `kernel` for one rank or for several.
template <uint32_t kNumRanks>
const void* grid_function(Kernel kernel) {
  switch (kernel) {
    case Kernel::dispatch: return dispatch_grid_function<kNumRanks>();
    case Kernel::combine: return combine_grid_function<kNumRanks>();
    case Kernel::gemm1_cooperative: return gemm_grid_function<kNumRanks>(Strategy::cooperative, Phases::gemm1);
    case Kernel::gemm1_small_batch: return gemm_grid_function<kNumRanks>(Strategy::small_batch, Phases::gemm1);
    case Kernel::gemm2_cooperative: return gemm_grid_function<kNumRanks>(Strategy::cooperative, Phases::gemm2);
    case Kernel::gemm2_small_batch: return gemm_grid_function<kNumRanks>(Strategy::small_batch, Phases::gemm2);
    case Kernel::meet: return meet_grid_function<kNumRanks>();
  }
  return nullptr;
}

uint32_t shared_bytes_of(Kernel kernel, const flow::Dims& dims) {
  // Both phases are alike.
  constexpr GemmConfig kCooperative = chain_config(Strategy::cooperative, Phases::gemm1);
  constexpr GemmConfig kSmallBatch = chain_config(Strategy::small_batch, Phases::gemm1);
  switch (kernel) {
    case Kernel::gemm1_cooperative:
    case Kernel::gemm2_cooperative: return GemmShared<kCooperative>::num_bytes(dims);
    case Kernel::gemm1_small_batch:
    case Kernel::gemm2_small_batch: return GemmShared<kSmallBatch>::num_bytes(dims);
    case Kernel::dispatch:
    case Kernel::combine:
    case Kernel::meet: break;
  }
  return SharedPlan::num_bytes(dims);
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
Status launch_grid(Kernel kernel, std::span<const Arguments> ranks, LaunchShape shape, cudaStream_t stream) {
  const void* function = grid_function<kNumRanks>(kernel);
  const uint32_t shared_bytes = shared_bytes_of(kernel, ranks.front().dims);
  const auto num_resident = max_resident(function, shape.threads_per_block, shared_bytes);
  if (!num_resident) return num_resident.status();
  const uint32_t num_blocks = static_cast<uint32_t>(ranks.size()) * shape.blocks_per_rank;
  if (num_blocks == 0 || num_blocks > *num_resident) {
    return invalid_argument(
        fmt::format(
            "the blocks of {} must all be resident at once, 1 to {} of {} threads and {} bytes of shared memory",
            to_string(kernel), *num_resident, shape.threads_per_block, shared_bytes),
        fmt::format("{} ranks with {} blocks each", ranks.size(), shape.blocks_per_rank), "ask for fewer blocks");
  }
  RankArguments<kNumRanks> arguments;
  std::copy(ranks.begin(), ranks.end(), arguments.ranks);
  void* parameters[] = {&arguments, &shape.blocks_per_rank};
  return cuda::check(cudaLaunchCooperativeKernel(function, dim3(num_blocks), dim3(shape.threads_per_block), parameters,
                                                 shared_bytes, stream),
                     fmt::format("launching {}", to_string(kernel)));
}

}  // namespace

std::string_view to_string(Kernel kernel) {
  switch (kernel) {
    case Kernel::dispatch: return "dispatch";
    case Kernel::combine: return "combine";
    case Kernel::gemm1_cooperative: return "gemm1, wide";
    case Kernel::gemm1_small_batch: return "gemm1, small batch";
    case Kernel::gemm2_cooperative: return "gemm2, wide";
    case Kernel::gemm2_small_batch: return "gemm2, small batch";
    case Kernel::meet: return "meet";
  }
  return "unknown";
}

Result<uint32_t> max_resident_blocks(Kernel kernel, const flow::Dims& dims, uint32_t threads_per_block) {
  return max_resident(grid_function<1>(kernel), threads_per_block, shared_bytes_of(kernel, dims));
}

Status launch(Kernel kernel, std::span<const Arguments> ranks, LaunchShape shape, cudaStream_t stream) {
  if (ranks.empty() || ranks.size() > kMaxVirtualRanks) {
    return invalid_argument(fmt::format("one GPU must play 1 to {} ranks", kMaxVirtualRanks), ranks.size(),
                            "use more GPUs or fewer ranks");
  }
  return ranks.size() == 1 ? launch_grid<1>(kernel, ranks, shape, stream)
                           : launch_grid<kMaxVirtualRanks>(kernel, ranks, shape, stream);
}

}  // namespace megamoe::sm90
