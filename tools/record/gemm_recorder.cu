#include "gemm_recorder.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "gemm_cases.hpp"
#include "gemm_kernel.hpp"
#include "recording.hpp"
#include "wgmma_cases.hpp"

namespace megamoe::record {

namespace {

__global__ void __launch_bounds__(kGemmThreads, 1)
    run_gemm(GemmArguments arguments, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b) {
  arguments.a = &a;
  arguments.b = &b;
  gemm_kernel(arguments);
}

bool succeeded(cudaError_t result, const char* what) {
  if (result != cudaSuccess) std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  return result == cudaSuccess;
}

template <class Element>
Element* upload(const std::vector<Element>& elements) {
  Element* device = nullptr;
  const size_t num_bytes = elements.size() * sizeof(Element);
  if (!succeeded(cudaMalloc(&device, num_bytes), "cudaMalloc")) return nullptr;
  return succeeded(cudaMemcpy(device, elements.data(), num_bytes, cudaMemcpyHostToDevice), "upload") ? device : nullptr;
}

/// The driver's encoding of a two-dimensional map of bytes with swizzle b128.
bool encode(const ptx::TensorMapSpec& spec, CUtensorMap* map) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (!succeeded(
          cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled")) {
    return false;
  }
  const cuuint64_t sizes[2] = {spec.sizes[0], spec.sizes[1]};
  const cuuint64_t strides[1] = {spec.strides_bytes[0]};
  const cuuint32_t box[2] = {spec.box[0], spec.box[1]};
  const cuuint32_t element_strides[2] = {1, 1};
  const auto encode_tiled = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  return encode_tiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, spec.base, sizes, strides, box, element_strides,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// Runs one case; empty when anything failed.
std::vector<uint32_t> run_on_device(const GemmCase& gemm) {
  const auto [m, n, num_k_blocks] = gemm.shape;
  std::vector<uint32_t> d(size_t{m} * n, 0xFFFFFFFFU);
  GemmArguments arguments{.m = m,
                          .n = n,
                          .num_k_blocks = num_k_blocks,
                          .a = nullptr,
                          .b = nullptr,
                          .a_scales = upload(gemm.a_scales),
                          .b_scales = upload(gemm.b_scales),
                          .d = reinterpret_cast<float*>(upload(d))};
  CUtensorMap a_map{};
  CUtensorMap b_map{};
  if (!encode(gemm_map_spec(upload(gemm.a), m, num_k_blocks, kGemmBlockM), &a_map)) return {};
  if (!encode(gemm_map_spec(upload(gemm.b), n, num_k_blocks, kGemmBlockN), &b_map)) return {};
  cudaFuncSetAttribute(run_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, kGemmSharedBytes);
  const uint32_t num_blocks = (m + kGemmBlockM - 1) / kGemmBlockM * (n / kGemmBlockN);
  run_gemm<<<num_blocks, kGemmThreads, kGemmSharedBytes>>>(arguments, a_map, b_map);
  if (!succeeded(cudaDeviceSynchronize(), "gemm")) return {};
  const cudaError_t copied = cudaMemcpy(d.data(), arguments.d, d.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost);
  return succeeded(copied, "download") ? d : std::vector<uint32_t>();
}

}  // namespace

bool record_gemms(const std::string& folder) {
  Recording recording;
  for (uint32_t case_idx = 0; case_idx < kGemmShapes.size(); ++case_idx) {
    const std::vector<uint32_t> d = run_on_device(make_gemm_case(case_idx));
    if (d.empty()) return false;
    recording.hashes.push_back(hash_of(d.data(), d.size()));
    std::printf("gemm %u x %u x %u: hash %016llx\n", kGemmShapes[case_idx].m, kGemmShapes[case_idx].n,
                kGemmShapes[case_idx].num_k_blocks * kGemmBlockK,
                static_cast<unsigned long long>(recording.hashes.back()));
  }
  return write_recording(folder + "/gemm.rec", recording);
}

}  // namespace megamoe::record
