// multiply against plain loops over unscaled values, bit for bit: streamed and expanded, every format and scale.

#include <cmath>
#include <cstring>

#include "formats/e8m0.hpp"
#include "panel_testing.hpp"

namespace megamoe::cpu {
namespace {

/// Shape of one problem. `first_panel` panels stand before those that are multiplied.
struct Size {
  WeightFormat format;
  PackedScale scale;
  uint32_t segment_k;
  uint32_t num_rows;
  uint32_t num_k;
  uint32_t num_panels = 3;
  uint32_t first_panel = 1;
};

/// One call's operands, with strides wider than the rows so that a wrong stride shows.
class Problem {
 public:
  explicit Problem(const Size& size)
      : size_(size),
        layout_{size.format, size.scale, size.first_panel + size.num_panels, size.num_k, size.segment_k},
        codes_(size.format, layout_.num_panels, size.num_k),
        scales_(layout_.total_scale_bytes()),
        a(size.num_rows * a_stride()),
        a_scales(random_floats(size.num_rows * a_scale_stride(), size.num_k, 0.1F, 2.0F)),
        totals(random_floats(size.num_rows * total_stride(), 6)),
        w_(kExpandedWords) {
    std::minstd_rand random(size.num_rows + size.num_k);
    for (uint32_t panel = 0; panel < layout_.num_panels; ++panel) {
      for (uint32_t k = 0; k < size.num_k; ++k) {
        for (uint32_t col = 0; col < kPanelCols; ++col) set_code(panel, k, col, random_code(random));
      }
    }
    for (uint8_t& code : a) code = static_cast<uint8_t>(random() % 0x7F);
    if (size.scale == PackedScale::column_e8m0) {
      for (std::byte& scale : scales_) scale = static_cast<std::byte>(120 + random() % 16);
    } else if (!scales_.empty()) {
      const std::vector<float> floats = random_floats(scales_.size() / sizeof(float), 5, 0.1F, 2.0F);
      std::memcpy(scales_.data(), floats.data(), scales_.size());
    }
  }

  size_t a_stride() const { return size_.num_k + 3; }
  /// Of prepared rows, with room for a last step of 32 columns.
  size_t word_stride() const { return size_.num_k + 19; }
  size_t a_scale_stride() const { return (size_.num_k + kGroupK - 1) / kGroupK + 1; }
  size_t total_stride() const { return size_t{size_.num_panels} * kPanelCols + 5; }
  void set_code(uint32_t panel, uint32_t k, uint32_t col, uint32_t code) { codes_.set(panel, k, col, code); }
  void set_nan_codes() { facts_.nan_codes = NanCodes::some; }
  void set_far_values() { facts_.far_values = FarValues::some; }
  PackedMatrix matrix() const { return {layout_, codes_.data(), scales_.data(), facts_}; }

  void run(const Kernels& kernels) { run(kernels, 0, size_.num_rows); }
  /// Rows [first_row, first_row + num_rows) alone.
  void run(const Kernels& kernels, uint32_t first_row, uint32_t num_rows) {
    const PackedMatrix matrix = this->matrix();
    const Kernels& chosen = kernels.for_matrix(matrix);
    std::vector<uint32_t> words(size_.num_rows * word_stride());
    for (uint32_t m = 0; m < size_.num_rows; ++m) {
      chosen.prepare_row(size_.format, a.data() + m * a_stride(), size_.num_k, words.data() + m * word_stride());
    }
    chosen.multiply({.matrix = &matrix,
                     .first_panel = size_.first_panel,
                     .num_panels = size_.num_panels,
                     .num_k = size_.num_k,
                     .num_rows = num_rows,
                     .a = words.data() + first_row * word_stride(),
                     .a_stride = word_stride(),
                     .a_scales = a_scales.data() + first_row * a_scale_stride(),
                     .a_scale_stride = a_scale_stride(),
                     .w = w_.data(),
                     .totals = totals.data() + first_row * total_stride(),
                     .total_stride = total_stride()});
  }

  /// The totals as the documented order of operations of `kernels` makes them.
  std::vector<float> wanted(const Kernels& kernels) const {
    const Isa isa = kernels.for_matrix(matrix()).isa;
    const bool folds = isa == Isa::amx_bf16 && size_.format == WeightFormat::mxfp4;
    const uint32_t segment_k = folds ? kGroupK : size_.segment_k;
    std::vector<float> result = totals;
    for (uint32_t m = 0; m < size_.num_rows; ++m) {
      for (uint32_t n = 0; n < size_.num_panels * kPanelCols; ++n) {
        float& total = result[m * total_stride() + n];
        for (uint32_t begin = 0; begin < size_.num_k; begin += segment_k) {
          const uint32_t end = std::min(size_.num_k, begin + segment_k);
          const float sum = segment_sum(isa, m, n, begin, end, folds);
          const float a_scale = a_scales[m * a_scale_stride() + begin / kGroupK];
          const bool has_scale = size_.scale != PackedScale::none && !folds;
          total = std::fma(sum, has_scale ? a_scale * w_scale(n, begin / size_.segment_k) : a_scale, total);
        }
      }
    }
    return result;
  }

 private:
  /// Sum of the products of columns [begin, end) of K, in the order in which `isa` adds.
  float segment_sum(Isa isa, uint32_t m, uint32_t n, uint32_t begin, uint32_t end, bool folds) const {
    const auto product_at = [&](uint32_t k) {
      const float w = codes_.value(size_.first_panel + n / kPanelCols, k, n % kPanelCols);
      const float scale = folds ? w_scale(n, k / size_.segment_k) : 1.0F;
      return std::pair{e4m3_to_float(a[m * a_stride() + k]), w * scale};
    };
    if (isa != Isa::avx512_bf16 && isa != Isa::amx_bf16) {
      float sum = 0.0F;
      for (uint32_t k = begin; k < end; ++k) sum = std::fma(product_at(k).first, product_at(k).second, sum);
      return sum;
    }
    std::vector<std::pair<float, float>> pairs(end - begin);
    for (uint32_t k = begin; k < end; ++k) pairs[pair_order(size_.format, k - begin)] = product_at(k);
    return isa == Isa::avx512_bf16 ? dot_sum(pairs) : tile_sum(pairs);
  }
  /// vdpbf16ps: the odd product of each pair, then the even one.
  static float dot_sum(const std::vector<std::pair<float, float>>& products) {
    float sum = 0.0F;
    for (size_t i = 0; i < products.size(); i += 2) {
      sum = std::fma(products[i + 1].first, products[i + 1].second, sum);
      sum = std::fma(products[i].first, products[i].second, sum);
    }
    return sum;
  }
  /// tdpbf16ps: 16 even and 16 odd products apart, both added up, then added to the sum.
  static float tile_sum(const std::vector<std::pair<float, float>>& products) {
    float sum = 0.0F;
    for (size_t tile = 0; tile < products.size(); tile += 32) {
      float even = 0.0F;
      float odd = 0.0F;
      for (size_t i = tile; i < std::min(tile + 32, products.size()); i += 2) {
        even = std::fma(products[i].first, products[i].second, even);
        odd = std::fma(products[i + 1].first, products[i + 1].second, odd);
      }
      sum += even + odd;
    }
    return sum;
  }

  uint32_t random_code(std::minstd_rand& random) const {
    const auto bits = static_cast<uint32_t>(random() >> 4);
    if (size_.format == WeightFormat::bf16) return 0x3C00U + (bits & 0x83FFU);
    if (size_.format == WeightFormat::mxfp4) return bits & 15U;
    return (bits & 0x7FU) == 0x7FU ? 0 : bits & 0xFFU;
  }
  float w_scale(uint32_t n, uint32_t segment) const {
    const std::byte* at = scales_.data() + (size_.first_panel + n / kPanelCols) * layout_.panel_scale_bytes() +
                          segment * layout_.segment_scale_bytes();
    if (size_.scale == PackedScale::column_e8m0) return e8m0_to_float(std::to_integer<uint8_t>(at[n % kPanelCols]));
    float scale;
    std::memcpy(&scale, at + (size_.scale == PackedScale::column_f32 ? 4 * (n % kPanelCols) : 0), sizeof(scale));
    return scale;
  }

  Size size_;
  PackedLayout layout_;
  PanelCodes codes_;
  std::vector<std::byte> scales_;
  PackedFacts facts_;

 public:
  std::vector<uint8_t> a;       // [num_rows, a_stride], e4m3 codes
  std::vector<float> a_scales;  // [num_rows, a_scale_stride]
  std::vector<float> totals;    // [num_rows, total_stride]

 private:
  std::vector<uint32_t> w_;
};

class MultiplyTest : public KernelsTest {
 protected:
  void expect_right(Problem problem, const Size& size) {
    const std::vector<float> wanted = problem.wanted(kernels_);
    problem.run(kernels_);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_TRUE(same_bits(problem.totals[i], wanted[i]))
          << to_string(size.format) << " rows " << size.num_rows << " k " << size.num_k << " segment " << size.segment_k
          << " total " << i << ": " << problem.totals[i] << ", wanted " << wanted[i];
    }
  }
  void expect_right(const Size& size) { expect_right(Problem(size), size); }
};

constexpr Size kFp8{WeightFormat::fp8_block, PackedScale::panel_f32, 128, 1, 128};
constexpr Size kMxfp4{WeightFormat::mxfp4, PackedScale::column_e8m0, 32, 1, 128};
constexpr Size kBf16{WeightFormat::bf16, PackedScale::none, 128, 1, 128};

TEST_P(MultiplyTest, EveryRowCountAndWidth) {
  for (Size size : {kFp8, kMxfp4, kBf16}) {
    for (size.num_rows = 0; size.num_rows <= 20; ++size.num_rows) {
      for (const uint32_t num_k : {16U, 48U, 112U, 128U, 144U, 272U}) {
        size.num_k = num_k;
        expect_right(size);
      }
    }
  }
}

TEST_P(MultiplyTest, EverySegmentAndScale) {
  Size size = kFp8;
  size.num_k = 144;
  for (const PackedScale scale : {PackedScale::panel_f32, PackedScale::column_f32}) {
    for (const uint32_t segment_k : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U}) {
      for (const uint32_t num_rows : {1U, 2U, 6U, 7U, 13U}) {
        size.scale = scale;
        size.segment_k = segment_k;
        size.num_rows = num_rows;
        expect_right(size);
      }
    }
  }
}

TEST_P(MultiplyTest, EveryNumberOfPanels) {
  for (Size size : {kFp8, kMxfp4, kBf16}) {
    for (size.num_panels = 0; size.num_panels <= 5; ++size.num_panels) {
      for (const uint32_t num_rows : {1U, 3U, 9U}) {
        size.num_rows = num_rows;
        expect_right(size);
      }
    }
  }
}

TEST_P(MultiplyTest, ARowIsTheSameWhateverItsNeighbours) {
  // 19 rows go through expanded weights, each alone is streamed.
  for (Size size : {kFp8, kMxfp4, kBf16}) {
    size.num_rows = 19;
    size.num_k = 256;
    Problem all(size);
    Problem one_by_one = all;
    all.run(kernels_);
    for (uint32_t m = 0; m < size.num_rows; ++m) one_by_one.run(kernels_, m, 1);
    EXPECT_EQ(all.totals, one_by_one.totals) << to_string(size.format);
  }
}

TEST_P(MultiplyTest, NanCodesReachTheirColumnAlone) {
  Size size = kFp8;
  for (const uint32_t num_rows : {1U, 6U, 8U}) {
    size.num_rows = num_rows;
    Problem problem(size);
    problem.set_code(size.first_panel + 1, 77, 5, 0x7F);
    problem.set_code(size.first_panel + 2, 3, 0, 0xFF);
    problem.set_nan_codes();
    expect_right(problem, size);
    problem.run(kernels_);
    for (uint32_t n = 0; n < size.num_panels * kPanelCols; ++n) {
      EXPECT_EQ(std::isnan(problem.totals[n]), n == kPanelCols + 5 || n == 2 * kPanelCols) << n;
    }
  }
}

TEST_P(MultiplyTest, NanAndInfinityStayInTheirRow) {
  for (const uint32_t num_rows : {4U, 14U}) {
    Size size = kMxfp4;
    size.num_rows = num_rows;
    Problem clean(size);
    Problem dirty = clean;
    dirty.a[1 * dirty.a_stride() + 5] = 0x7F;
    dirty.a_scales[3 * dirty.a_scale_stride()] = kInf;
    clean.run(kernels_);
    dirty.run(kernels_);
    for (uint32_t m = 0; m < num_rows; ++m) {
      for (uint32_t n = 0; n < size.num_panels * kPanelCols; ++n) {
        const float value = dirty.totals[m * dirty.total_stride() + n];
        if (m == 1 || m == 3) {
          EXPECT_FALSE(std::isfinite(value));
        } else {
          EXPECT_TRUE(same_bits(value, clean.totals[m * clean.total_stride() + n]));
        }
      }
    }
  }
}

MM_FOR_EVERY_ISA(MultiplyTest);

}  // namespace
}  // namespace megamoe::cpu
