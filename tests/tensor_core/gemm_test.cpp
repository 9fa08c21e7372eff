// A whole kernel, its source untouched, on the emulated machine: the bits that an H200 gave (data/hopper-mma/gemm.rec),
// with nothing found, also when races are looked for.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "emu/machine.hpp"
#include "emu/tensor_copy.hpp"
#include "emu/tensor_core/dot.hpp"
#include "record/gemm_cases.hpp"
#include "record/gemm_kernel.hpp"
#include "record/recording.hpp"
#include "record/wgmma_cases.hpp"

namespace megamoe {
namespace {

using record::GemmCase;

template <class T>
T* upload(emu::Machine& machine, const std::vector<T>& values) {
  T* copy = machine.allocate<T>(0, values.size());
  machine.write(copy, values.data(), values.size() * sizeof(T));
  return copy;
}

struct Outcome {
  emu::Report report;
  std::vector<uint32_t> d;  // [m, n] FP32 bits
};

Outcome run(const GemmCase& gemm, uint64_t seed, emu::Races races) {
  Result<emu::Machine> machine = emu::Machine::create({.seed = seed, .races = races});
  EXPECT_TRUE(machine.ok());
  const auto [m, n, num_k_blocks] = gemm.shape;
  const auto a_map =
      emu::make_tensor_map(record::gemm_map_spec(upload(*machine, gemm.a), m, num_k_blocks, record::kGemmBlockM));
  const auto b_map =
      emu::make_tensor_map(record::gemm_map_spec(upload(*machine, gemm.b), n, num_k_blocks, record::kGemmBlockN));
  EXPECT_TRUE(a_map.ok() && b_map.ok());
  const record::GemmArguments arguments{.m = m,
                                        .n = n,
                                        .num_k_blocks = num_k_blocks,
                                        .a = &*a_map,
                                        .b = &*b_map,
                                        .a_scales = upload(*machine, gemm.a_scales),
                                        .b_scales = upload(*machine, gemm.b_scales),
                                        .d = machine->allocate<float>(0, size_t{m} * n)};
  const uint32_t num_row_tiles = (m + record::kGemmBlockM - 1) / record::kGemmBlockM;
  const Status launched = machine->launch({.num_blocks = num_row_tiles * n / record::kGemmBlockN,
                                           .num_threads = record::kGemmThreads,
                                           .shared_bytes = record::kGemmSharedBytes},
                                          [&] { record::gemm_kernel(arguments); });
  EXPECT_TRUE(launched.ok());
  Outcome outcome{machine->run(), std::vector<uint32_t>(size_t{m} * n)};
  EXPECT_TRUE(machine->is_written(arguments.d, outcome.d.size() * sizeof(float)));
  std::memcpy(outcome.d.data(), arguments.d, outcome.d.size() * sizeof(float));
  return outcome;
}

class Gemm : public testing::TestWithParam<uint32_t> {};

TEST_P(Gemm, SameBitsAsOnAnH200) {
  const auto recording = record::read_recording(MM_SOURCE_DIR "/data/hopper-mma/gemm.rec");
  ASSERT_TRUE(recording.has_value());
  ASSERT_EQ(recording->hashes.size(), record::kGemmShapes.size());
  const GemmCase gemm = record::make_gemm_case(GetParam());
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Outcome outcome = run(gemm, seed, seed % 2 == 0 ? emu::Races::find : emu::Races::ignore);
    EXPECT_TRUE(outcome.report.clean()) << outcome.report.to_string();
    EXPECT_EQ(record::hash_of(outcome.d.data(), outcome.d.size()), recording->hashes[GetParam()]) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gemm, testing::Range(0U, static_cast<uint32_t>(record::kGemmShapes.size())));

}  // namespace
}  // namespace megamoe
