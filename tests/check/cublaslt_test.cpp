// cuBLASLt as it is found, or not: what can be said of it without a GPU.

#include <gtest/gtest.h>

#include <string>

#include "check/cublaslt_library.hpp"
#include "check/gpu_ceiling.hpp"
#include "check/gpu_state.hpp"

namespace megamoe {
namespace {

TEST(CublasLtTest, AFileThatIsNotThereIsNamedWithTheRemedy) {
  const Result<Fp8Ceiling> ceiling = measure_gpu_fp8_tflops("/nonexistent/libcublasLt.so");
  ASSERT_FALSE(ceiling.ok());
  EXPECT_EQ(ceiling.status().code(), StatusCode::not_found);
  for (const char* word : {"cuBLASLt must be there", "/nonexistent/libcublasLt.so", "LD_LIBRARY_PATH", "--cublaslt"}) {
    EXPECT_NE(ceiling.status().message().find(word), std::string::npos) << ceiling.status().message();
  }
}

TEST(CublasLtTest, AnotherLibraryIsToldByTheFunctionThatItLacks) {
  const Result<CublasLt> lib = CublasLt::load("libm.so.6");
  ASSERT_FALSE(lib.ok());
  EXPECT_EQ(lib.status().code(), StatusCode::unsupported);
  EXPECT_NE(lib.status().message().find("a library without cublasLtGetVersion"), std::string::npos)
      << lib.status().message();
}

TEST(CublasLtTest, WhereItIsFoundItTellsItsVersionAndItsErrors) {
  const Result<CublasLt> lib = CublasLt::load("");
  if (!lib) {
    EXPECT_EQ(lib.status().code(), StatusCode::not_found);
    GTEST_SKIP() << lib.status().message();
  }
  EXPECT_EQ(lib->name().rfind("cuBLASLt 1", 0), 0U) << lib->name();
  EXPECT_TRUE(lib->check(CUBLAS_STATUS_SUCCESS, "x").ok());
  EXPECT_EQ(lib->check(CUBLAS_STATUS_NOT_SUPPORTED, "x").code(), StatusCode::unsupported);
  EXPECT_EQ(lib->check(CUBLAS_STATUS_ALLOC_FAILED, "x").code(), StatusCode::out_of_memory);
  const Status failure = lib->check(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmul");
  EXPECT_EQ(failure.code(), StatusCode::internal);
  EXPECT_NE(failure.message().find("cublasLtMatmul failed: "), std::string::npos) << failure.message();
}

TEST(GpuStateTest, IsToldOrSaysWhatIsMissing) {
  const Result<GpuState> gpu = read_gpu_state();
  if (!gpu) {
    EXPECT_EQ(gpu.status().code(), StatusCode::unsupported) << gpu.status().to_string();
    EXPECT_NE(gpu.status().message(), "");
    return;
  }
  EXPECT_NE(gpu->name, "");
  EXPECT_NE(gpu->driver, "");
  EXPECT_GT(gpu->max_sm_mhz, 0U);
  EXPECT_LE(gpu->clocks.sm_mhz, gpu->max_sm_mhz);
  EXPECT_GT(gpu->power_limit_watts, 0);
}

}  // namespace
}  // namespace megamoe
