// The FP8 ceiling: one large product by cuBLASLt.

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "check/cublaslt_library.hpp"
#include "check/gpu_ceiling.hpp"
#include "check/gpu_fill.hpp"
#include "cuda/host/runtime.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

/// Rows, columns and depth of the product.
constexpr uint64_t kSize = 8192;
constexpr double kFlops = 2.0 * kSize * kSize * kSize;
/// At least what the library's documentation recommends for Hopper, 32 MiB.
constexpr uint64_t kWorkspaceBytes = uint64_t{64} << 20;
/// Of the library's proposals, which come with the most promising first.
constexpr int kMaxAlgorithms = 8;
constexpr int kPasses = 5;
/// One after the other in a pass, so that launching costs nothing: 8 ms.
constexpr int kProductsPerPass = 10;

/// What one of the library's create functions made, with the function that unmakes it.
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

/// D = transpose(A) * B, all matrices column by column: the one arrangement that FP8 has on Hopper.
class Product {
 public:
  static Result<Product> create(const CublasLt& lib, int ordinal, const cuda::Stream& stream);

  /// The library's most promising algorithms.
  Result<std::vector<cublasLtMatmulAlgo_t>> propose() const;
  /// Queues it once.
  Status multiply(const cublasLtMatmulAlgo_t& algorithm, const cuda::Stream& stream) const;

 private:
  explicit Product(const CublasLt& lib)
      : lib_(lib),
        handle_(nullptr, lib.destroy),
        product_(nullptr, lib.destroy_product),
        factor_(nullptr, lib.destroy_matrix),
        result_(nullptr, lib.destroy_matrix) {}
  Status describe();
  Status set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t num_bytes);
  Status allocate(int ordinal, const cuda::Stream& stream);

  CublasLt lib_;
  Owned<cublasLtHandle_t> handle_;
  Owned<cublasLtMatmulDesc_t> product_;
  Owned<cublasLtMatrixLayout_t> factor_;  // A's and B's
  Owned<cublasLtMatrixLayout_t> result_;
  cuda::DeviceMemory a_;          // [kSize, kSize] e4m3
  cuda::DeviceMemory b_;          // [kSize, kSize] e4m3
  cuda::DeviceMemory d_;          // [kSize, kSize] bf16
  cuda::DeviceMemory workspace_;  // [kWorkspaceBytes]
};

Result<Product> Product::create(const CublasLt& lib, int ordinal, const cuda::Stream& stream) {
  Product product(lib);
  cublasLtHandle_t handle = nullptr;
  MM_RETURN_IF_ERROR(lib.check(lib.create(&handle), "cublasLtCreate"));
  product.handle_.reset(handle);
  MM_RETURN_IF_ERROR(product.describe());
  MM_RETURN_IF_ERROR(product.allocate(ordinal, stream));
  return product;
}

Status Product::describe() {
  cublasLtMatmulDesc_t product = nullptr;
  MM_RETURN_IF_ERROR(
      lib_.check(lib_.create_product(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate"));
  product_.reset(product);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  MM_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  // Off is the default; it is the point of this ceiling, so it is said.
  const int8_t fast_accumulation = 0;
  MM_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_accumulation, sizeof fast_accumulation));
  cublasLtMatrixLayout_t layout = nullptr;
  MM_RETURN_IF_ERROR(
      lib_.check(lib_.create_matrix(&layout, CUDA_R_8F_E4M3, kSize, kSize, kSize), "cublasLtMatrixLayoutCreate"));
  factor_.reset(layout);
  MM_RETURN_IF_ERROR(
      lib_.check(lib_.create_matrix(&layout, CUDA_R_16BF, kSize, kSize, kSize), "cublasLtMatrixLayoutCreate"));
  result_.reset(layout);
  return {};
}

Status Product::set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t num_bytes) {
  return lib_.check(lib_.set_product(product_.get(), attribute, value, num_bytes), "cublasLtMatmulDescSetAttribute");
}

Status Product::allocate(int ordinal, const cuda::Stream& stream) {
  uint64_t seed = 1;
  for (const auto& [memory, num_bytes] :
       {std::pair{&a_, kSize * kSize}, std::pair{&b_, kSize * kSize}, std::pair{&d_, kSize * kSize * sizeof(uint16_t)},
        std::pair{&workspace_, kWorkspaceBytes}}) {
    auto allocated = cuda::DeviceMemory::allocate(ordinal, num_bytes);
    MM_RETURN_IF_ERROR(allocated.status());
    *memory = *std::move(allocated);
  }
  for (const cuda::DeviceMemory* factor : {&a_, &b_}) {
    MM_RETURN_IF_ERROR(cuda::check(
        fill_normal_e4m3(factor->as<uint8_t>(), factor->num_bytes(), seed++ << 32, stream.get()), "filling a matrix"));
  }
  return stream.synchronize();
}

Result<std::vector<cublasLtMatmulAlgo_t>> Product::propose() const {
  cublasLtMatmulPreference_t made = nullptr;
  MM_RETURN_IF_ERROR(lib_.check(lib_.create_preference(&made), "cublasLtMatmulPreferenceCreate"));
  const Owned<cublasLtMatmulPreference_t> preference(made, lib_.destroy_preference);
  MM_RETURN_IF_ERROR(lib_.check(
      lib_.set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes, sizeof kWorkspaceBytes),
      "cublasLtMatmulPreferenceSetAttribute"));
  std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> proposals{};
  int num_proposals = 0;
  MM_RETURN_IF_ERROR(lib_.check(lib_.propose(handle_.get(), product_.get(), factor_.get(), factor_.get(), result_.get(),
                                             result_.get(), made, kMaxAlgorithms, proposals.data(), &num_proposals),
                                "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  algorithms.reserve(proposals.size());
  for (int i = 0; i < num_proposals; ++i) algorithms.push_back(proposals[i].algo);
  if (!algorithms.empty()) return algorithms;
  return error(StatusCode::unsupported, "cuBLASLt must propose an algorithm for an FP8 product", lib_.name() + ", none",
               "use another version of cuBLASLt");
}

Status Product::multiply(const cublasLtMatmulAlgo_t& algorithm, const cuda::Stream& stream) const {
  const float one = 1;
  const float zero = 0;
  return lib_.check(lib_.multiply(handle_.get(), product_.get(), &one, a_.data(), factor_.get(), b_.data(),
                                  factor_.get(), &zero, d_.data(), result_.get(), d_.data(), result_.get(), &algorithm,
                                  workspace_.data(), kWorkspaceBytes, stream.get()),
                    "cublasLtMatmul");
}

/// Seconds of one product in the best pass.
Result<double> time_algorithm(const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                              const cuda::Stream& stream) {
  const auto begin = cuda::Event::create();
  MM_RETURN_IF_ERROR(begin.status());
  const auto end = cuda::Event::create();
  MM_RETURN_IF_ERROR(end.status());
  MM_RETURN_IF_ERROR(product.multiply(algorithm, stream));  // loads the kernel
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    MM_RETURN_IF_ERROR(begin->record(stream));
    for (int i = 0; i < kProductsPerPass; ++i) MM_RETURN_IF_ERROR(product.multiply(algorithm, stream));
    MM_RETURN_IF_ERROR(end->record(stream));
    MM_RETURN_IF_ERROR(stream.synchronize());
    const auto seconds = end->seconds_since(*begin);
    MM_RETURN_IF_ERROR(seconds.status());
    best = pass == 0 ? *seconds : std::min(best, *seconds);
  }
  return best / kProductsPerPass;
}

}  // namespace

Result<Fp8Ceiling> measure_gpu_fp8_tflops(const std::string& library_path) {
  const Result<CublasLt> lib = CublasLt::load(library_path);
  MM_RETURN_IF_ERROR(lib.status());
  const auto devices = cuda::hopper_devices();
  MM_RETURN_IF_ERROR(devices.status());
  const int ordinal = devices->front().ordinal;
  const cuda::DeviceScope scope(ordinal);
  const auto stream = cuda::Stream::create(ordinal);
  MM_RETURN_IF_ERROR(stream.status());
  Result<Product> product = Product::create(*lib, ordinal, *stream);
  MM_RETURN_IF_ERROR(product.status());
  const auto algorithms = product->propose();
  MM_RETURN_IF_ERROR(algorithms.status());
  double best = 0;
  Status refusal;
  for (const cublasLtMatmulAlgo_t& algorithm : *algorithms) {
    const Result<double> seconds = time_algorithm(*product, algorithm, *stream);
    if (!seconds) {
      refusal = seconds.status();
      continue;
    }
    best = std::max(best, kFlops / *seconds * 1e-12);
  }
  if (best == 0) return refusal;
  return Fp8Ceiling{.tflops = best, .library = lib->name()};
}

}  // namespace megamoe
