// multiply against three plain loops, bit for bit.

#include <cmath>

#include "kernels_testing.hpp"

namespace megamoe::cpu {
namespace {

enum class WeightScales { given, none };

/// One call's operands, with strides wider than the rows so that a wrong stride shows.
struct Problem {
  uint32_t num_rows;
  uint32_t num_k;
  uint32_t segment_k;
  WeightScales weight_scales;
  size_t a_stride = num_k + 3;
  size_t a_scale_stride = 2;
  size_t total_stride = kPanelCols + 5;
  uint32_t num_segments = (num_k + segment_k - 1) / segment_k;
  std::vector<float> a = random_floats(num_rows * a_stride, num_rows);
  std::vector<float> a_scales = random_floats(num_rows * a_scale_stride, num_k, 0.1F, 2.0F);
  std::vector<float> w = random_floats(size_t{num_k} * kPanelCols, segment_k);
  std::vector<float> w_scales = random_floats(size_t{num_segments} * kPanelCols, 5, 0.1F, 2.0F);
  std::vector<float> totals = random_floats(num_rows * total_stride, 6);

  MultiplyArgs args() {
    MultiplyArgs args;
    args.num_rows = num_rows;
    args.num_k = num_k;
    args.segment_k = segment_k;
    args.a = a.data();
    args.a_stride = a_stride;
    args.a_scales = a_scales.data();
    args.a_scale_stride = a_scale_stride;
    args.w = w.data();
    args.w_scales = weight_scales == WeightScales::given ? w_scales.data() : nullptr;
    args.totals = totals.data();
    args.total_stride = total_stride;
    return args;
  }

  /// The totals as the documented order of operations makes them.
  std::vector<float> wanted() const {
    std::vector<float> result = totals;
    for (uint32_t m = 0; m < num_rows; ++m) {
      for (uint32_t n = 0; n < kPanelCols; ++n) {
        float& total = result[m * total_stride + n];
        for (uint32_t segment = 0; segment < num_segments; ++segment) {
          float acc = 0.0F;
          for (uint32_t k = segment * segment_k; k < std::min(num_k, (segment + 1) * segment_k); ++k) {
            acc = std::fma(a[m * a_stride + k], w[k * kPanelCols + n], acc);
          }
          const float a_scale = a_scales[m * a_scale_stride];
          const float scale =
              weight_scales == WeightScales::given ? a_scale * w_scales[segment * kPanelCols + n] : a_scale;
          total = std::fma(acc, scale, total);
        }
      }
    }
    return result;
  }
};

class MultiplyTest : public KernelsTest {
 protected:
  void expect_right(Problem problem) {
    const std::vector<float> wanted = problem.wanted();
    kernels_.multiply(problem.args());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_TRUE(same_bits(problem.totals[i], wanted[i]))
          << "rows " << problem.num_rows << " k " << problem.num_k << " segment " << problem.segment_k << " total " << i
          << ": " << problem.totals[i] << ", wanted " << wanted[i];
    }
  }
};

TEST_P(MultiplyTest, EveryRowCountAndWidth) {
  for (uint32_t num_rows = 1; num_rows <= 20; ++num_rows) {
    for (uint32_t num_k = 16; num_k <= 128; num_k += 16) {
      for (const uint32_t segment_k : {16U, 32U, 64U, 128U}) {
        expect_right({num_rows, num_k, segment_k, WeightScales::given});
      }
    }
  }
}

TEST_P(MultiplyTest, OddSegments) {
  for (const uint32_t segment_k : {1U, 2U, 4U, 8U}) expect_right({7, 48, segment_k, WeightScales::given});
}

TEST_P(MultiplyTest, WithoutWeightScales) {
  for (const uint32_t num_rows : {1U, 6U, 13U, 64U}) expect_right({num_rows, 112, 128, WeightScales::none});
}

TEST_P(MultiplyTest, NoRowsTouchNothing) { expect_right({0, 128, 128, WeightScales::given}); }

TEST_P(MultiplyTest, ARowIsTheSameWhateverItsNeighbours) {
  Problem all{19, 128, 32, WeightScales::given};
  Problem one = all;
  kernels_.multiply(all.args());
  for (uint32_t m = 0; m < all.num_rows; ++m) {
    MultiplyArgs args = one.args();
    args.num_rows = 1;
    args.a += m * args.a_stride;
    args.a_scales += m * args.a_scale_stride;
    args.totals += m * args.total_stride;
    kernels_.multiply(args);
  }
  EXPECT_EQ(all.totals, one.totals);
}

TEST_P(MultiplyTest, NanAndInfinityStayInTheirRow) {
  Problem clean{14, 128, 128, WeightScales::given};
  Problem dirty = clean;
  dirty.a[3 * dirty.a_stride + 5] = kNan;
  dirty.a[9 * dirty.a_stride + 7] = kInf;
  kernels_.multiply(clean.args());
  kernels_.multiply(dirty.args());
  for (uint32_t m = 0; m < clean.num_rows; ++m) {
    for (uint32_t n = 0; n < kPanelCols; ++n) {
      const float value = dirty.totals[m * dirty.total_stride + n];
      if (m == 3 || m == 9) {
        EXPECT_FALSE(std::isfinite(value));
      } else {
        EXPECT_TRUE(same_bits(value, clean.totals[m * clean.total_stride + n]));
      }
    }
  }
}

TEST_P(MultiplyTest, SubnormalNumbersAreNotFlushed) {
  Problem problem{2, 16, 16, WeightScales::given};
  std::fill(problem.a.begin(), problem.a.end(), 0x1p-75F);
  std::fill(problem.w.begin(), problem.w.end(), 0x1p-70F);
  std::fill(problem.a_scales.begin(), problem.a_scales.end(), 1.0F);
  std::fill(problem.w_scales.begin(), problem.w_scales.end(), 1.0F);
  std::fill(problem.totals.begin(), problem.totals.end(), 0.0F);
  kernels_.multiply(problem.args());
  EXPECT_EQ(problem.totals[0], 0x1p-141F);
}

MM_FOR_EVERY_ISA(MultiplyTest);

}  // namespace
}  // namespace megamoe::cpu
