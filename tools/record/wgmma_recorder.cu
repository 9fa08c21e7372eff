// Runs every recorded wgmma case on the GPU of this machine and writes what it returned.
//
//   wgmma_recorder FOLDER      -> FOLDER/SET.rec for each set, and FOLDER/SET.raw with all results in full; gemm.rec
//
// Built and run by tools/record/build.sh; the results depend on nothing but the GPU.

#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda/ptx/wgmma.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "gemm_recorder.hpp"
#include "recording.hpp"
#include "wgmma_cases.hpp"

namespace megamoe::record {

namespace {

constexpr uint32_t kSharedAlignment = 1024;

/// One case on the device; every offset counts from the set's buffers.
struct DeviceCase {
  ptx::MatrixPlace a_place;
  ptx::MatrixPlace b_place;
  ptx::ScaleD scale_d;
  uint64_t image_begin;  // bytes
  uint32_t image_bytes;  // a multiple of 4
  uint64_t a_begin;      // bytes
  uint64_t d_begin;      // words
};

struct DeviceBuffers {
  const DeviceCase* cases;
  const uint8_t* images;
  const uint8_t* a_rows;
  uint32_t* d;
};

constexpr uint32_t kNumShapes = ptx::kMaxWgmmaColumns / 8U;
constexpr uint32_t kNumKernels = 4U * kNumShapes + kNumVariants;

/// Every n for both formats and both sources of A, then every sign and major.
constexpr std::array<Variant, kNumKernels> all_variants() {
  std::array<Variant, kNumKernels> variants{};
  for (uint32_t idx = 0; idx < kNumShapes; ++idx) {
    const uint32_t n = 8U * (idx + 1U);
    variants[4U * idx] = {{ptx::MmaFormat::e4m3, n}, ASource::shared};
    variants[4U * idx + 1U] = {{ptx::MmaFormat::bf16, n}, ASource::shared};
    variants[4U * idx + 2U] = {{ptx::MmaFormat::e4m3, n}, ASource::registers};
    variants[4U * idx + 3U] = {{ptx::MmaFormat::bf16, n}, ASource::registers};
  }
  for (uint32_t idx = 0; idx < kNumVariants; ++idx) variants[4U * kNumShapes + idx] = sign_and_major_variants()[idx];
  return variants;
}

// A kernel is named by its variant's number: nvcc 13.0 writes host code that g++ refuses for a kernel template with a
// struct among its arguments.
template <uint32_t kVariantIdx>
__global__ void __launch_bounds__(ptx::kWarpgroupLanes) run_case(DeviceBuffers buffers, uint32_t case_idx) {
  static constexpr ptx::WgmmaSpec kSpec = all_variants()[kVariantIdx].spec;
  static constexpr ASource kSource = all_variants()[kVariantIdx].a_source;
  extern __shared__ uint8_t unaligned[];
  const DeviceCase& which = buffers.cases[case_idx];
  const uint32_t lane = threadIdx.x;
  const auto shared_begin = static_cast<uint32_t>(__cvta_generic_to_shared(unaligned));
  const uint32_t image_begin = (shared_begin + kSharedAlignment - 1U) / kSharedAlignment * kSharedAlignment;
  auto* image = reinterpret_cast<uint32_t*>(unaligned + (image_begin - shared_begin));
  const auto* source = reinterpret_cast<const uint32_t*>(buffers.images + which.image_begin);
  for (uint32_t i = lane; i < which.image_bytes / 4U; i += blockDim.x) image[i] = source[i];
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  __syncthreads();

  float d[kSpec.n / 2];
  uint32_t* d_rows = buffers.d + which.d_begin;
#pragma unroll
  for (uint32_t i = 0; i < kSpec.n / 2; ++i) {
    d[i] = __uint_as_float(d_rows[ptx::d_row(lane, i) * kSpec.n + ptx::d_column(lane, i)]);
  }
  ptx::MatrixPlace b_place = which.b_place;
  b_place.start += image_begin;
  ptx::wgmma_pin(d);
  ptx::wgmma_fence();
  if constexpr (kSource == ASource::shared) {
    ptx::MatrixPlace a_place = which.a_place;
    a_place.start += image_begin;
    ptx::wgmma_mma_async<kSpec>(d, ptx::encode(a_place), ptx::encode(b_place), which.scale_d);
  } else {
    uint32_t a[4];
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t byte = ptx::a_row(lane, r) * ptx::kWgmmaOperandBytes + ptx::a_byte(lane, r);
      a[r] = *reinterpret_cast<const uint32_t*>(buffers.a_rows + which.a_begin + byte);
    }
    ptx::wgmma_mma_async<kSpec>(d, a, ptx::encode(b_place), which.scale_d);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(d);
#pragma unroll
  for (uint32_t i = 0; i < kSpec.n / 2; ++i) {
    d_rows[ptx::d_row(lane, i) * kSpec.n + ptx::d_column(lane, i)] = __float_as_uint(d[i]);
  }
}

using Kernel = void (*)(DeviceBuffers, uint32_t);

template <uint32_t... kIndices>
std::array<Kernel, kNumKernels> all_kernels(std::integer_sequence<uint32_t, kIndices...>) {
  return {run_case<kIndices>...};
}

Kernel find_kernel(const Case& wanted) {
  static constexpr auto kVariants = all_variants();
  static const auto kKernels = all_kernels(std::make_integer_sequence<uint32_t, kNumKernels>());
  for (uint32_t idx = 0; idx < kNumKernels; ++idx) {
    if (kVariants[idx].spec == wanted.spec && kVariants[idx].a_source == wanted.a_source) return kKernels[idx];
  }
  return nullptr;
}

bool succeeded(cudaError_t result, const char* what) {
  if (result != cudaSuccess) std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  return result == cudaSuccess;
}

/// A device copy of `elements`, never freed: the process ends with the run.
template <class Element>
Element* upload(const std::vector<Element>& elements) {
  Element* device = nullptr;
  const size_t num_bytes = elements.size() * sizeof(Element);
  if (num_bytes == 0) return device;
  if (!succeeded(cudaMalloc(&device, num_bytes), "cudaMalloc")) return nullptr;
  return succeeded(cudaMemcpy(device, elements.data(), num_bytes, cudaMemcpyHostToDevice), "upload") ? device : nullptr;
}

/// All cases of a set as the device wants them.
struct FlatSet {
  std::vector<DeviceCase> cases;
  std::vector<Kernel> kernels;
  std::vector<uint8_t> images;
  std::vector<uint8_t> a_rows;
  std::vector<uint32_t> d;
};

FlatSet flatten(const CaseSetInfo& info) {
  FlatSet flat;
  for (uint32_t case_idx = 0; case_idx < info.num_cases; ++case_idx) {
    const Case made = make_case(info.set, case_idx);
    flat.cases.push_back({made.a_place, made.b_place, made.scale_d, flat.images.size(),
                          static_cast<uint32_t>(made.image.size()), flat.a_rows.size(), flat.d.size()});
    flat.kernels.push_back(find_kernel(made));
    flat.images.insert(flat.images.end(), made.image.begin(), made.image.end());
    flat.a_rows.insert(flat.a_rows.end(), made.a_rows.begin(), made.a_rows.end());
    flat.d.insert(flat.d.end(), made.d.begin(), made.d.end());
  }
  return flat;
}

bool run_on_device(FlatSet& flat) {
  const DeviceBuffers buffers{upload(flat.cases), upload(flat.images), upload(flat.a_rows), upload(flat.d)};
  if (buffers.cases == nullptr || buffers.d == nullptr) return false;
  for (uint32_t case_idx = 0; case_idx < flat.cases.size(); ++case_idx) {
    const Kernel kernel = flat.kernels[case_idx];
    if (kernel == nullptr) {
      std::fprintf(stderr, "case %u has a spec that the recorder does not compile; add it to all_variants\n", case_idx);
      return false;
    }
    const auto shared_bytes = static_cast<int>(flat.cases[case_idx].image_bytes + kSharedAlignment);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    kernel<<<1, ptx::kWarpgroupLanes, static_cast<size_t>(shared_bytes)>>>(buffers, case_idx);
  }
  if (!succeeded(cudaDeviceSynchronize(), "run")) return false;
  return succeeded(cudaMemcpy(flat.d.data(), buffers.d, flat.d.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost),
                   "download");
}

bool record_set(const CaseSetInfo& info, const std::string& folder) {
  FlatSet flat = flatten(info);
  if (!run_on_device(flat)) return false;
  Recording recording;
  recording.num_kept = info.num_kept;
  for (uint32_t case_idx = 0; case_idx < info.num_cases; ++case_idx) {
    const size_t begin = flat.cases[case_idx].d_begin;
    const size_t end = case_idx + 1 < info.num_cases ? flat.cases[case_idx + 1].d_begin : flat.d.size();
    recording.hashes.push_back(hash_of(flat.d.data() + begin, end - begin));
    if (case_idx < info.num_kept) {
      recording.kept_words.insert(recording.kept_words.end(), flat.d.begin() + begin, flat.d.begin() + end);
    }
  }
  std::ofstream raw(folder + "/" + info.name + ".raw", std::ios::binary);
  raw.write(reinterpret_cast<const char*>(flat.d.data()), flat.d.size() * sizeof(uint32_t));
  std::printf("%-14s %6u cases %9zu results\n", info.name, info.num_cases, flat.d.size());
  return raw.good() && write_recording(folder + "/" + info.name + ".rec", recording);
}

}  // namespace

}  // namespace megamoe::record

int main(int num_arguments, char** arguments) {
  using namespace megamoe::record;
  if (num_arguments != 2) {
    std::fprintf(stderr, "usage: wgmma_recorder FOLDER\n");
    return 2;
  }
  cudaDeviceProp properties{};
  if (!succeeded(cudaGetDeviceProperties(&properties, 0), "device")) return 1;
  std::printf("%s, compute capability %d.%d\n", properties.name, properties.major, properties.minor);
  for (const CaseSetInfo& info : kCaseSets) {
    if (!record_set(info, arguments[1])) return 1;
  }
  return record_gemms(arguments[1]) ? 0 : 1;
}
