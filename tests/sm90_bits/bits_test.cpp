// The kernels on the emulated machine give an H200's bits, case by case of the list that `megamoe check --record-bits`
// ran there.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "check/bits/bit_inputs.hpp"
#include "check/bits/bit_record.hpp"
#include "emulated_layer.hpp"
#include "reference/judge.hpp"

namespace megamoe::bits {

void PrintTo(const BitCase& bit_case, std::ostream* stream) { *stream << bit_case.name; }

namespace {

using sm90::testing::Kernels;
using sm90::testing::LayerJob;
using sm90::testing::run_layer;
using sm90::testing::RunSpec;

constexpr const char* kRecord = MM_SOURCE_DIR "/data/h200-bits/hashes.json";
constexpr const char* kModelFolder = MM_SOURCE_DIR "/data/tiny-moe";

class EmulatedBits : public ::testing::TestWithParam<BitCase> {};

TEST_P(EmulatedBits, AreTheH200s) {
  const BitCase& bit_case = GetParam();
  const auto inputs = BitInputs::make(bit_case, kModelFolder);
  ASSERT_TRUE(inputs.ok()) << inputs.status().to_string();
  const LayerJob job{bit_case.config, inputs->weights(), inputs->ranks()};
  RunSpec spec{.strategy = sm90::testing::kernel_strategy(bit_case.config.tuning.strategy),
               .block_m = bit_case.emulated.block_m,
               .num_blocks = bit_case.emulated.num_blocks,
               .options = {.seed = bit_case.input.seed}};
  const std::vector<Bf16> y = run_layer(job, spec);
  RecordProperty("hash", hash_text(hash_of(y)));

  const auto reference = inputs->reference();
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  const Verdict verdict = judge(*reference, y);
  EXPECT_TRUE(verdict.ok()) << verdict.num_bad_rows << " of " << verdict.num_rows << " rows, " << verdict.message;

  spec.kernels = Kernels::fused;
  spec.options.seed += 1;
  EXPECT_TRUE(run_layer(job, spec) == y) << "the fused kernel differs from the chain";

  const auto record = read_bit_record(kRecord);
  if (record.status().code() == StatusCode::not_found) {
    GTEST_SKIP()
        << "no record yet: run `megamoe check --backend chain --record-bits data/h200-bits/hashes.json` on an H200";
  }
  ASSERT_TRUE(record.ok()) << record.status().to_string();
  const auto recorded = record->hashes.find(bit_case.name);
  ASSERT_TRUE(recorded != record->hashes.end()) << "the record lacks the case: record anew";
  EXPECT_EQ(hash_text(hash_of(y)), hash_text(recorded->second)) << "not the bits of " << record->machine;
}

/// "zipf/small_batch" -> "zipf_small_batch".
std::string test_name(const ::testing::TestParamInfo<BitCase>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedBits, ::testing::ValuesIn(bit_cases()), test_name);

}  // namespace
}  // namespace megamoe::bits
