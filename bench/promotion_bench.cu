// How much of the tensor core's FP8 rate is left when every four instructions are promoted, as gemm1 and gemm2 do
// (docs/perf/0009): one or two math groups a block, no loads, no ring. One line a way of doing it.

#include <cuda_runtime_api.h>

#include <cstdio>

#include "cuda/ptx/wgmma.hpp"
#include "cuda/simt/block.hpp"

namespace megamoe {
namespace {

enum class OperandA { shared, registers };

constexpr uint32_t kThreads = 256;  // two groups
constexpr uint32_t kSharedBytes = 128U * 1024U;
constexpr uint32_t kTileCols = 256;
constexpr uint32_t kSteps = 4;  // instructions of a chunk, 32 bytes of K each
constexpr uint32_t kNumChunks = 20'000;

__device__ ptx::WgmmaDescriptor operand_at(const uint8_t* start) {
  return ptx::encode({.start = simt::shared_address(start),
                      .leading_bytes = 16,
                      .stride_bytes = ptx::swizzle_pattern_bytes(ptx::Swizzle::b128),
                      .swizzle = ptx::Swizzle::b128});
}

/// `num_groups` groups multiply 64 rows by 256 columns a chunk, kN at a time through kAccumulators accumulators, each
/// of which is promoted before it is used again. cycles [grid]: of all chunks.
template <uint32_t kN, uint32_t kAccumulators, OperandA kOperandA>
__global__ void __launch_bounds__(kThreads, 1) promote(float* out, long long* cycles, uint32_t num_groups) {
  constexpr ptx::WgmmaSpec kSpec{.format = ptx::MmaFormat::e4m3, .n = kN};
  constexpr uint32_t kParts = kTileCols / kN;
  uint8_t* shared = simt::dynamic_shared();
  auto* words = reinterpret_cast<uint32_t*>(shared);
  // Codes of either sign below NaN: the power a product takes depends on its values.
  for (uint32_t i = threadIdx.x; i < kSharedBytes / 4U; i += kThreads) words[i] = (i * 2'654'435'761U) & 0xB7B7B7B7U;
  asm volatile("fence.proxy.async;" ::: "memory");
  simt::sync_threads();
  const uint32_t group = threadIdx.x / 128U;
  if (group >= num_groups) return;

  float sums[kAccumulators][kN / 2] = {};
  float totals[kTileCols / 2] = {};
  uint32_t rows[kSteps][4];
  for (uint32_t i = 0; i < kSteps * 4U; ++i) rows[i / 4U][i % 4U] = words[threadIdx.x * kSteps * 4U + i];
  const float factors[2] = {out[0], out[1]};
  const uint8_t* a = shared + group * 8192U;
  const uint8_t* b = shared + 16384U;
  const auto begin = [&](float(&d)[kN / 2], uint32_t part) {
    ptx::wgmma_pin(d);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) {
      const auto columns = ptx::advance(operand_at(b), part * kN * 128U + step * 32U);
      const auto scale_d = step == 0 ? ptx::ScaleD::overwrite : ptx::ScaleD::accumulate;
      if constexpr (kOperandA == OperandA::registers) {
        ptx::wgmma_mma_async<kSpec>(d, rows[step], columns, scale_d);
      } else {
        ptx::wgmma_mma_async<kSpec>(d, ptx::advance(operand_at(a), step * 32U), columns, scale_d);
      }
    }
    ptx::wgmma_commit_group();
  };
  const auto promote_part = [&](float(&d)[kN / 2], uint32_t part) {
    ptx::wgmma_pin(d);
#pragma unroll
    for (uint32_t i = 0; i < kN / 2U; ++i) {
      totals[part * kN / 2U + i] = __fmaf_rn(d[i], factors[(i >> 1U) & 1U], totals[part * kN / 2U + i]);
    }
  };

  const long long begin_cycles = clock64();
  for (uint32_t chunk = 0; chunk < kNumChunks; ++chunk) {
    if constexpr (kAccumulators == 2) begin(sums[0], 0);
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      float(&mine)[kN / 2] = sums[part % kAccumulators];
      if constexpr (kAccumulators == 1) {
        begin(mine, part);
        ptx::wgmma_wait_group<0>();
      } else if (part + 1U < kParts) {
        begin(sums[(part + 1U) % 2U], part + 1U);
        ptx::wgmma_wait_group<1>();
      } else {
        ptx::wgmma_wait_group<0>();
      }
      promote_part(mine, part);
    }
  }
  const long long end_cycles = clock64();
  float all = 0.0F;
  for (const float total : totals) all += total;
  out[2U + blockIdx.x * kThreads + threadIdx.x] = all;
  if (threadIdx.x == 0) cycles[blockIdx.x] = end_cycles - begin_cycles;
}

template <uint32_t kN, uint32_t kAccumulators, OperandA kOperandA>
int run(const char* name, uint32_t num_blocks, float* out, long long* cycles) {
  const auto kernel = promote<kN, kAccumulators, kOperandA>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  for (uint32_t num_groups = 1; num_groups <= 2; ++num_groups) {
    kernel<<<num_blocks, kThreads, kSharedBytes>>>(out, cycles, num_groups);
    long long first = 0;
    const cudaError_t status = cudaMemcpy(&first, cycles, sizeof(first), cudaMemcpyDeviceToHost);
    if (status != cudaSuccess) {
      std::fprintf(stderr, "%s: %s\n", name, cudaGetErrorString(status));
      return 1;
    }
    // An SM multiplies 4096 pairs of e4m3 a cycle.
    const double ideal = 64.0 * kTileCols * 128.0 / 4096.0 * num_groups;
    const double taken = static_cast<double>(first) / kNumChunks;
    std::printf("%-44s %u group(s)  %7.1f cycles a chunk, %5.1f %% of the rate\n", name, num_groups, taken,
                100.0 * ideal / taken);
  }
  return 0;
}

int run_all() {
  int num_sms = 0;
  float* out = nullptr;
  long long* cycles = nullptr;
  if (cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) {
    std::fprintf(stderr, "promotion_bench must run on a machine with a Hopper GPU; there is none\n");
    return 1;
  }
  const auto num_blocks = static_cast<uint32_t>(num_sms);
  cudaMalloc(&out, (2U + size_t{num_blocks} * kThreads) * sizeof(float));
  cudaMemset(out, 0, 2U * sizeof(float));
  cudaMalloc(&cycles, num_blocks * sizeof(long long));
  return run<128, 1, OperandA::shared>("A shared, n = 128, one accumulator", num_blocks, out, cycles) ||
         run<64, 1, OperandA::shared>("A shared, n = 64, one accumulator", num_blocks, out, cycles) ||
         run<64, 2, OperandA::shared>("A shared, n = 64, two accumulators", num_blocks, out, cycles) ||
         run<128, 1, OperandA::registers>("A in registers, n = 128, one accumulator", num_blocks, out, cycles) ||
         run<64, 2, OperandA::registers>("A in registers, n = 64, two accumulators", num_blocks, out, cycles) ||
         run<32, 2, OperandA::registers>("A in registers, n = 32, two accumulators", num_blocks, out, cycles);
}

}  // namespace
}  // namespace megamoe

int main() { return megamoe::run_all(); }
