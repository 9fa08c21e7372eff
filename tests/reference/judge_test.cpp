#include "reference/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "check/synthetic.hpp"
#include "formats/bf16.hpp"
#include "reference/compare_stored.hpp"

namespace megamoe {
namespace {

constexpr uint32_t kNumTokens = 40;

LayerConfig small_layer() {
  LayerConfig config;
  config.shape = {.hidden = 256, .intermediate = 128, .num_experts = 8, .top_k = 3};
  config.max_tokens_per_rank = kNumTokens;
  return config;
}

SyntheticWeightSpec small_weights(WeightFormat format) {
  SyntheticWeightSpec spec;
  spec.shape = small_layer().shape;
  spec.routed.format = format;
  return spec;
}

SyntheticInputSpec small_input() {
  SyntheticInputSpec spec;
  spec.shape = small_layer().shape;
  return spec;
}

std::vector<Bf16> rounded(const ReferenceRows& rows) {
  std::vector<Bf16> y;
  for (const double value : rows.y) y.push_back({bf16_from_float(static_cast<float>(value))});
  return y;
}

/// Hands out the weights of `inner`, changed by `change`.
template <class Change>
class ChangedWeights final : public WeightSource {
 public:
  ChangedWeights(const WeightSource& inner, Change change) : inner_(&inner), change_(std::move(change)) {}
  Result<ExpertWeights> routed(uint32_t expert_idx) const override {
    Result<ExpertWeights> weights = inner_->routed(expert_idx);
    if (weights.ok()) change_(*weights);
    return weights;
  }

 private:
  const WeightSource* inner_;
  Change change_;
};

/// A reference and the output of a layer that meets it.
class Judge : public ::testing::Test {
 protected:
  ReferenceRows reference(const WeightSource& weights, const RankInput& input) const {
    const Result<ReferenceRows> rows = reference_rows(small_layer(), weights, input);
    EXPECT_TRUE(rows.ok()) << rows.status().to_string();
    return rows.ok() ? *rows : ReferenceRows{};
  }

  SyntheticWeights weights_{small_weights(WeightFormat::fp8_block)};
  SyntheticBatch batch_{small_input(), kNumTokens};
  ReferenceRows reference_ = reference(weights_, batch_.all());
  std::vector<Bf16> y_ = rounded(reference_);
};

TEST_F(Judge, PassesTheRoundedReference) {
  const Verdict verdict = judge(reference_, y_);
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_EQ(verdict.num_rows, kNumTokens);
  EXPECT_GT(verdict.worst_error, 0.0);
  EXPECT_LT(verdict.worst_error, 0x1p-9);
}

TEST_F(Judge, PassesOneBf16StepInOneColumnOfEveryRow) {
  for (size_t row = 0; row < kNumTokens; ++row) ++y_[row * reference_.hidden + row].bits;
  EXPECT_TRUE(judge(reference_, y_).ok());
}

TEST_F(Judge, FailsWhenTenPercentOfTheRowsAreZeroed) {
  for (size_t row = 0; row < kNumTokens; row += 10) {
    std::fill_n(y_.begin() + static_cast<ptrdiff_t>(row * reference_.hidden), reference_.hidden, Bf16{});
  }
  const Verdict verdict = judge(reference_, y_);
  EXPECT_EQ(verdict.num_bad_rows, kNumTokens / 10);
  EXPECT_NEAR(verdict.worst_error, 1.0, 0.8);
  EXPECT_NE(verdict.message.find("row 0"), std::string::npos) << verdict.message;
}

TEST_F(Judge, FailsWhenGateAndUpAreSwapped) {
  const ChangedWeights swapped(weights_, [](ExpertWeights& weights) { std::swap(weights.gate, weights.up); });
  EXPECT_EQ(judge(reference_, rounded(reference(swapped, batch_.all()))).num_bad_rows, kNumTokens);
}

TEST_F(Judge, FailsWhenNibblesAreSwapped) {
  const SyntheticWeights weights(small_weights(WeightFormat::mxfp4));
  std::vector<std::byte> swapped_down;
  const ChangedWeights swapped(weights, [&](ExpertWeights& expert) {
    swapped_down.assign(expert.down.values.begin(), expert.down.values.end());
    for (std::byte& byte : swapped_down) byte = byte << 4 | byte >> 4;
    expert.down.values = swapped_down;
  });
  const ReferenceRows right = reference(weights, batch_.all());
  EXPECT_TRUE(judge(right, rounded(right)).ok());
  EXPECT_EQ(judge(right, rounded(reference(swapped, batch_.all()))).num_bad_rows, kNumTokens);
}

TEST_F(Judge, FailsWhenOneRowComesFromAWrongExpert) {
  RankInput input = batch_.all();
  const auto right_ids = std::get<std::span<const int32_t>>(input.topk_ids);
  std::vector<int32_t> ids(right_ids.begin(), right_ids.end());
  const size_t slot = 7 * small_layer().shape.top_k;
  ids[slot] = (ids[slot] + 1) % 8;
  input.topk_ids = std::span<const int32_t>(ids);
  const Verdict verdict = judge(reference_, rounded(reference(weights_, input)));
  EXPECT_EQ(verdict.num_bad_rows, 1U);
  EXPECT_EQ(verdict.worst_row, 7U);
}

TEST_F(Judge, FailsWhenOneContributionIsDropped) {
  RankInput input = batch_.all();
  const auto right_ids = std::get<std::span<const int32_t>>(input.topk_ids);
  std::vector<int32_t> ids(right_ids.begin(), right_ids.end());
  ids[11 * small_layer().shape.top_k + 2] = -1;
  input.topk_ids = std::span<const int32_t>(ids);
  const Verdict verdict = judge(reference_, rounded(reference(weights_, input)));
  EXPECT_EQ(verdict.num_bad_rows, 1U);
  EXPECT_EQ(verdict.worst_row, 11U);
}

TEST_F(Judge, FailsWhenScaleBlocksAreMisread) {
  SyntheticWeightSpec spec = small_weights(WeightFormat::fp8_block);
  spec.routed.block_rows = spec.routed.block_cols = 32;
  const SyntheticWeights weights(spec);
  const ReferenceRows right = reference(weights, batch_.all());
  const ChangedWeights misread(weights, [](ExpertWeights& expert) {
    // The first scales of the 32x32 grid, taken for a 128x128 one.
    for (WeightMatrix* matrix : {&expert.gate, &expert.up, &expert.down}) {
      matrix->block_rows = matrix->block_cols = 128;
      const size_t num_scales = size_t{(matrix->num_rows + 127) / 128} * ((matrix->num_cols + 127) / 128);
      matrix->scales = std::get<std::span<const float>>(matrix->scales).first(num_scales);
    }
  });
  EXPECT_EQ(judge(right, rounded(reference(misread, batch_.all()))).num_bad_rows, kNumTokens);
}

TEST_F(Judge, FailsWhenRowsAreShiftedByOne) {
  std::rotate(y_.begin(), y_.begin() + reference_.hidden, y_.end());
  EXPECT_EQ(judge(reference_, y_).num_bad_rows, kNumTokens);
}

TEST_F(Judge, FailsOnNanOrInfinityInACleanRow) {
  y_[3 * reference_.hidden] = {0x7FC0};
  y_[5 * reference_.hidden] = {0x7F80};
  const Verdict verdict = judge(reference_, y_);
  EXPECT_EQ(verdict.num_bad_rows, 2U);
  EXPECT_TRUE(std::isinf(verdict.worst_error));
  EXPECT_NE(verdict.message.find("row 3: column 0 must be finite"), std::string::npos) << verdict.message;
}

TEST_F(Judge, DemandsNanInAPoisonedRow) {
  SyntheticInputSpec spec = small_input();
  spec.specials = {{.token_idx = 4, .value = SpecialValue::nan}, {.token_idx = 6, .value = SpecialValue::inf}};
  const SyntheticBatch poisoned(spec, kNumTokens);
  const ReferenceRows rows = reference(weights_, poisoned.all());
  const Verdict right = judge(rows, rounded(rows));
  EXPECT_TRUE(right.ok()) << right.message;
  EXPECT_EQ(right.num_poisoned_rows, 2U);
  const Verdict verdict = judge(rows, y_);  // the clean batch's output: finite in rows 4 and 6
  EXPECT_EQ(verdict.num_bad_rows, 2U);
  EXPECT_NE(verdict.message.find("row 4: column 0 must be NaN"), std::string::npos) << verdict.message;
}

TEST_F(Judge, DemandsExactZerosInARowWithoutExperts) {
  RankInput input = batch_.all();
  const std::vector<int32_t> ids(size_t{kNumTokens} * 3, -1);
  input.topk_ids = std::span<const int32_t>(ids);
  const ReferenceRows rows = reference(weights_, input);
  std::vector<Bf16> y(rows.y.size());
  EXPECT_TRUE(judge(rows, y).ok());
  y[9 * rows.hidden + 1].bits = 1;  // the smallest subnormal
  EXPECT_EQ(judge(rows, y).num_bad_rows, 1U);
}

TEST_F(Judge, FailsOnAnOutputOfTheWrongSize) {
  y_.pop_back();
  EXPECT_EQ(judge(reference_, y_).num_bad_rows, kNumTokens);
}

TEST_F(Judge, FewRowsAreGivenSlackThatMatters) {
  uint32_t num_rows = 0;
  for (size_t row = 0; row < kNumTokens; ++row) {
    num_rows += reference_.flip_slack[row] > kMaxRowError * reference_.magnitude[row] ? 1 : 0;
  }
  EXPECT_LE(num_rows, kNumTokens / 10);
}

TEST(CompareStored, TellsMedianAndWorstRow) {
  const std::vector<float> stored = {1, 0, 2, 0, 4, 0};
  const auto bf16 = [](float value) { return Bf16{bf16_from_float(value)}; };
  const std::vector<Bf16> y = {bf16(1), bf16(0), bf16(2), bf16(0.0625F), bf16(4), bf16(0.5F)};
  const StoredComparison comparison = compare_stored(y, stored, 2);
  EXPECT_EQ(comparison.num_rows, 3U);
  EXPECT_EQ(comparison.worst_row, 2U);
  EXPECT_DOUBLE_EQ(comparison.worst_error, 0.125);
  EXPECT_DOUBLE_EQ(comparison.median_error, 0.03125);
  EXPECT_GT(comparison.median_error, kMaxStoredMedianError);
  EXPECT_EQ(comparison.num_bad_rows, 1U);
  EXPECT_FALSE(comparison.ok());
}

TEST(CompareStored, NanAndWrongSizesAreBad) {
  const std::vector<float> stored = {1, 1, 1, 1};
  std::vector<Bf16> y(4, Bf16{0x3F80});
  EXPECT_TRUE(compare_stored(y, stored, 2).ok());
  y[1] = {0x7FC0};
  EXPECT_EQ(compare_stored(y, stored, 2).num_bad_rows, 1U);
  y.pop_back();
  EXPECT_EQ(compare_stored(y, stored, 2).num_bad_rows, 2U);
  EXPECT_FALSE(compare_stored({}, {}, 2).ok());
}

}  // namespace
}  // namespace megamoe
