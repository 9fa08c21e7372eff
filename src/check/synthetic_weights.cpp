#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "check/random.hpp"
#include "check/synthetic.hpp"
#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace check {

const std::array<float, 257>& normal_quantiles() {
  static const std::array<float, 257> table = [] {
    std::array<float, 257> quantiles{};
    for (size_t i = 0; i < quantiles.size(); ++i) {
      const double target = (static_cast<double>(std::min<size_t>(i, 255)) + (i < 256 ? 0.5 : 0.9)) / 256;
      double low = -8;
      double high = 8;
      for (int step = 0; step < 60; ++step) {
        const double middle = (low + high) / 2;
        (0.5 * (1 + std::erf(middle / std::sqrt(2.0))) < target ? low : high) = middle;
      }
      quantiles[i] = static_cast<float>(low);
    }
    return quantiles;
  }();
  return table;
}

}  // namespace check

namespace {

using check::Stream;

enum class MatrixRole : uint8_t { gate, up, gate_up, down, bias };

constexpr float kCodeSigma = 154.0F;    // e4m3 codes: the outermost quantile, 2.9 sigma, is then just inside 448
constexpr float kE2m1Sigma = 2.93F;     // root mean square of the 16 codes, all equally likely
constexpr float kTinyCodeSigma = 8.0F;  // scale_byte_254: activations are about 1/8

/// Values that every format can hold exactly.
constexpr std::array<float, 7> kConstants = {1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, 0.5F};

uint32_t divide_up(uint32_t value, uint32_t divisor) { return (value + divisor - 1) / divisor; }

float power_of_two(int exponent) { return std::ldexp(1.0F, exponent); }

/// Storage of one matrix.
struct Matrix {
  MatrixFormat format;
  uint32_t num_rows = 0;
  uint32_t num_cols = 0;
  std::vector<std::byte> values;
  std::vector<float> f32;
  std::vector<E8m0> e8m0;

  bool uses_e8m0() const {
    return format.format == WeightFormat::mxfp4 ||
           (format.format == WeightFormat::fp8_block && format.scale == ScaleType::e8m0);
  }
  uint32_t block_rows() const { return format.format == WeightFormat::fp8_block ? format.block_rows : 1; }
  uint32_t block_cols() const { return format.format == WeightFormat::fp8_block ? format.block_cols : kMxfp4Group; }
  size_t num_scales() const {
    if (format.format == WeightFormat::bf16) return 0;
    return size_t{divide_up(num_rows, block_rows())} * divide_up(num_cols, block_cols());
  }
  size_t num_bytes() const {
    const size_t num_values = size_t{num_rows} * num_cols;
    if (format.format == WeightFormat::bf16) return num_values * 2;
    return format.format == WeightFormat::mxfp4 ? num_values / 2 : num_values;
  }

  void resize(const MatrixFormat& new_format, uint32_t rows, uint32_t cols) {
    format = new_format;
    num_rows = rows;
    num_cols = cols;
    values.resize(num_bytes());
    f32.resize(uses_e8m0() ? 0 : num_scales());
    e8m0.resize(uses_e8m0() ? num_scales() : 0);
  }

  WeightMatrix view() const {
    WeightMatrix matrix;
    matrix.format = format.format;
    matrix.num_rows = num_rows;
    matrix.num_cols = num_cols;
    matrix.values = values;
    if (format.format != WeightFormat::bf16) {
      matrix.block_rows = block_rows();
      matrix.block_cols = block_cols();
      if (uses_e8m0()) {
        matrix.scales = std::span<const E8m0>(e8m0);
      } else {
        matrix.scales = std::span<const float>(f32);
      }
    }
    return matrix;
  }
};

/// Table from a random byte to an e4m3 code, normally distributed; holds both zeros and two subnormals.
std::array<std::byte, 256> e4m3_table(float sigma) {
  std::array<std::byte, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::byte>(e4m3_from_float(check::normal_quantiles()[i] * sigma));
  }
  table[126] = std::byte{0x87};
  table[127] = std::byte{0x80};
  table[128] = std::byte{0x00};
  table[129] = std::byte{0x01};
  return table;
}

/// Writes the stream's bytes, each through `table`.
void fill_bytes(std::vector<std::byte>& values, const Stream& stream, const std::array<std::byte, 256>& table) {
  for (size_t first = 0; first < values.size(); first += 8) {
    uint64_t bits = stream.at(first / 8);
    const size_t count = std::min<size_t>(8, values.size() - first);
    for (size_t i = 0; i < count; ++i, bits >>= 8) values[first + i] = table[bits & 255U];
  }
}

void fill_raw_bytes(std::vector<std::byte>& values, const Stream& stream) {
  for (size_t first = 0; first < values.size(); first += 8) {
    const uint64_t bits = stream.at(first / 8);
    std::memcpy(values.data() + first, &bits, std::min<size_t>(8, values.size() - first));
  }
}

/// Uniform values of the given standard deviation.
void fill_bf16(std::vector<std::byte>& values, const Stream& stream, float sigma) {
  const float unit = sigma * 1.7320508F / 32768.0F;
  for (size_t first = 0; first < values.size(); first += 8) {
    const uint64_t bits = stream.at(first / 8);
    std::array<uint16_t, 4> four{};
    for (size_t i = 0; i < 4; ++i) {
      four[i] = bf16_from_float(static_cast<float>(static_cast<int16_t>(bits >> (16 * i))) * unit);
    }
    std::memcpy(values.data() + first, four.data(), std::min<size_t>(8, values.size() - first));
  }
}

/// Scales so that the matrix's values have about this standard deviation.
void fill_scales(Matrix& matrix, const Stream& stream, float sigma, uint32_t spread) {
  const float unit = sigma / (matrix.format.format == WeightFormat::mxfp4 ? kE2m1Sigma : kCodeSigma);
  const int exponent = static_cast<int>(std::lround(std::log2(unit)));
  for (size_t i = 0; i < matrix.f32.size(); ++i)
    matrix.f32[i] = unit * static_cast<float>(0.75 + 0.5 * stream.uniform(i));
  for (size_t i = 0; i < matrix.e8m0.size(); ++i) {
    const int lower = static_cast<int>(stream.at(i) % (spread + 1));
    matrix.e8m0[i].bits = static_cast<uint8_t>(std::clamp(127 + exponent - lower, 2, 253));
  }
}

void fill_random(Matrix& matrix, const Stream& codes, const Stream& scales, float sigma, uint32_t spread) {
  static const std::array<std::byte, 256> table = e4m3_table(kCodeSigma);
  switch (matrix.format.format) {
    case WeightFormat::fp8_block: fill_bytes(matrix.values, codes, table); break;
    case WeightFormat::mxfp4: fill_raw_bytes(matrix.values, codes); break;
    case WeightFormat::bf16: fill_bf16(matrix.values, codes, sigma); break;
  }
  fill_scales(matrix, scales, sigma, spread);
}

/// Sets rows first, first + step, ... to code(value), to be multiplied by the matrix's scales (for BF16: by `scale`).
void fill_rows(Matrix& matrix, uint32_t first, uint32_t step, float value, float scale) {
  const size_t row_bytes = matrix.num_bytes() / matrix.num_rows;
  const uint8_t nibble = e2m1_from_float(value);
  const uint16_t wide = bf16_from_float(value * scale);
  for (size_t row = first; row < matrix.num_rows; row += step) {
    std::byte* bytes = matrix.values.data() + row * row_bytes;
    switch (matrix.format.format) {
      case WeightFormat::fp8_block: std::memset(bytes, e4m3_from_float(value), row_bytes); break;
      case WeightFormat::mxfp4: std::memset(bytes, nibble | (nibble << 4), row_bytes); break;
      case WeightFormat::bf16:
        for (size_t col = 0; col < matrix.num_cols; ++col) std::memcpy(bytes + col * 2, &wide, 2);
        break;
    }
  }
}

void set_scales(Matrix& matrix, int exponent) {
  std::fill(matrix.f32.begin(), matrix.f32.end(), power_of_two(exponent));
  std::fill(matrix.e8m0.begin(), matrix.e8m0.end(), E8m0{static_cast<uint8_t>(127 + exponent)});
}

void zero_first_block(Matrix& matrix) {
  const bool is_bf16 = matrix.format.format == WeightFormat::bf16;
  const size_t num_rows = std::min(matrix.num_rows, is_bf16 ? 32U : matrix.block_rows());
  const size_t num_cols = std::min(matrix.num_cols, is_bf16 ? 32U : matrix.block_cols());
  const size_t row_bytes = matrix.num_bytes() / matrix.num_rows;
  for (size_t row = 0; row < num_rows; ++row) {
    std::memset(matrix.values.data() + row * row_bytes, 0, row_bytes * num_cols / matrix.num_cols);
  }
}

}  // namespace

struct SyntheticWeights::Buffers {
  Matrix gate;
  Matrix up;
  Matrix gate_up;
  Matrix down;
  std::vector<float> gate_bias;
  std::vector<float> up_bias;
  std::vector<float> gate_up_bias;
  std::vector<float> down_bias;

  void make_random(const SyntheticWeightSpec& spec, const MatrixFormat& format, GateUpLayout layout, uint64_t key);
  void make_biases(const SyntheticWeightSpec& spec, GateUpLayout layout, uint64_t key);
  void apply_fill(const SyntheticWeightSpec& spec, uint32_t expert_idx);
  void fill_constant(const SyntheticWeightSpec& spec, float gate_value, float up_value);
  ExpertWeights view(GateUpLayout layout) const;
};

void SyntheticWeights::Buffers::make_random(const SyntheticWeightSpec& spec, const MatrixFormat& format,
                                            GateUpLayout layout, uint64_t key) {
  const LayerShape& shape = spec.shape;
  const float in_sigma = 1.0F / std::sqrt(static_cast<float>(shape.hidden));
  // silu(g) * u has a root mean square of about 0.6 for unit g and u.
  const float out_sigma = 2.0F / std::sqrt(static_cast<float>(shape.intermediate));
  const auto make = [&](Matrix& matrix, MatrixRole role, uint32_t num_rows, uint32_t num_cols, float sigma) {
    matrix.resize(format, num_rows, num_cols);
    fill_random(matrix, Stream(key, role, 0), Stream(key, role, 1), sigma, spec.scale_spread);
  };
  if (layout == GateUpLayout::separate) {
    make(gate, MatrixRole::gate, shape.intermediate, shape.hidden, in_sigma);
    make(up, MatrixRole::up, shape.intermediate, shape.hidden, in_sigma);
  } else {
    make(gate_up, MatrixRole::gate_up, 2 * shape.intermediate, shape.hidden, in_sigma);
  }
  make(down, MatrixRole::down, shape.hidden, shape.intermediate, out_sigma);
  make_biases(spec, layout, key);
}

void SyntheticWeights::Buffers::make_biases(const SyntheticWeightSpec& spec, GateUpLayout layout, uint64_t key) {
  const bool has_biases = spec.biases == Biases::all;
  const bool is_separate = layout == GateUpLayout::separate;
  const Stream stream(key, MatrixRole::bias);
  uint64_t position = 0;
  const auto make = [&](std::vector<float>& bias, bool is_present, size_t count) {
    bias.resize(is_present ? count : 0);
    for (float& value : bias) value = 0.25F * check::normal_from(static_cast<uint32_t>(stream.at(position++)));
  };
  make(gate_bias, has_biases && is_separate, spec.shape.intermediate);
  make(up_bias, has_biases && is_separate, spec.shape.intermediate);
  make(gate_up_bias, has_biases && !is_separate, size_t{spec.shape.intermediate} * 2);
  make(down_bias, has_biases, spec.shape.hidden);
}

void SyntheticWeights::Buffers::fill_constant(const SyntheticWeightSpec& spec, float gate_value, float up_value) {
  const int exponent = -static_cast<int>(std::ceil(std::log2(std::sqrt(static_cast<double>(spec.shape.hidden))))) - 1;
  const float scale = power_of_two(exponent);
  switch (spec.layout) {
    case GateUpLayout::separate:
      fill_rows(gate, 0, 1, gate_value, scale);
      fill_rows(up, 0, 1, up_value, scale);
      break;
    case GateUpLayout::concatenated:
      fill_rows(gate_up, 0, 1, gate_value, scale);
      fill_rows(gate_up, spec.shape.intermediate, 1, up_value, scale);
      break;
    case GateUpLayout::interleaved:
      fill_rows(gate_up, 0, 2, gate_value, scale);
      fill_rows(gate_up, 1, 2, up_value, scale);
      break;
  }
  for (Matrix* matrix : {&gate, &up, &gate_up}) set_scales(*matrix, exponent);
}

void SyntheticWeights::Buffers::apply_fill(const SyntheticWeightSpec& spec, uint32_t expert_idx) {
  const bool is_separate = spec.layout == GateUpLayout::separate;
  const std::vector<Matrix*> inner = is_separate ? std::vector{&gate, &up} : std::vector{&gate_up};
  const auto set_first_scale = [](Matrix& matrix, uint8_t byte) {
    if (!matrix.e8m0.empty()) matrix.e8m0[0].bits = byte;
  };
  switch (spec.fill) {
    case WeightFill::random: break;
    case WeightFill::constant_per_expert: {
      const float value = kConstants[expert_idx % kConstants.size()];
      fill_constant(spec, value, value);
      const int exponent = -static_cast<int>(std::ceil(std::log2(spec.shape.intermediate)));
      fill_rows(down, 0, 1, value, power_of_two(exponent));
      set_scales(down, exponent);
      break;
    }
    case WeightFill::gate_one_up_two: fill_constant(spec, 1.0F, 2.0F); break;
    case WeightFill::zero_block:
      for (Matrix* matrix : inner) zero_first_block(*matrix);
      zero_first_block(down);
      break;
    case WeightFill::scale_byte_0:
    case WeightFill::scale_byte_1: {
      const uint8_t byte = spec.fill == WeightFill::scale_byte_0 ? 0 : 1;
      for (Matrix* matrix : inner) set_first_scale(*matrix, byte);
      set_first_scale(down, byte);
      break;
    }
    case WeightFill::scale_byte_254:
      for (Matrix* matrix : inner) {
        const float sigma = kTinyCodeSigma / std::sqrt(static_cast<float>(spec.shape.hidden));
        if (matrix->format.format == WeightFormat::fp8_block) {
          fill_bytes(matrix->values, Stream(spec.seed, expert_idx, matrix->num_rows), e4m3_table(sigma));
        }
        std::fill(matrix->e8m0.begin(), matrix->e8m0.end(), E8m0{254});
      }
      break;
    case WeightFill::scale_byte_255:
      if (expert_idx == 0) set_first_scale(down, 255);
      break;
  }
}

ExpertWeights SyntheticWeights::Buffers::view(GateUpLayout layout) const {
  ExpertWeights weights;
  weights.layout = layout;
  if (layout == GateUpLayout::separate) {
    weights.gate = gate.view();
    weights.up = up.view();
  } else {
    weights.gate_up = gate_up.view();
  }
  weights.down = down.view();
  weights.gate_bias = gate_bias;
  weights.up_bias = up_bias;
  weights.gate_up_bias = gate_up_bias;
  weights.down_bias = down_bias;
  return weights;
}

SyntheticWeights::SyntheticWeights(const SyntheticWeightSpec& spec) : spec_(spec), buffers_(new Buffers) {}
SyntheticWeights::~SyntheticWeights() = default;

Result<ExpertWeights> SyntheticWeights::routed(uint32_t expert_idx) const {
  if (expert_idx >= spec_.shape.num_experts) {
    return invalid_argument(fmt::format("expert_idx must be below {}", spec_.shape.num_experts), expert_idx,
                            "ask for an expert of the layer");
  }
  buffers_->make_random(spec_, spec_.routed, spec_.layout, check::mix(spec_.seed) + expert_idx);
  buffers_->apply_fill(spec_, expert_idx);
  return buffers_->view(spec_.layout);
}

Result<ExpertWeights> SyntheticWeights::shared(uint32_t shared_idx) const {
  if (shared_idx >= spec_.shape.num_shared_experts) {
    return invalid_argument(fmt::format("shared_idx must be below {}", spec_.shape.num_shared_experts), shared_idx,
                            "ask for a shared expert of the layer");
  }
  buffers_->make_random(spec_, spec_.shared, spec_.shared_layout, ~check::mix(spec_.seed) + shared_idx);
  return buffers_->view(spec_.shared_layout);
}

uint64_t SyntheticWeights::routed_expert_bytes() const {
  const auto bytes = [&](uint32_t num_rows, uint32_t num_cols) {
    Matrix matrix;
    matrix.format = spec_.routed;
    matrix.num_rows = num_rows;
    matrix.num_cols = num_cols;
    return uint64_t{matrix.num_bytes()} + matrix.num_scales() * (matrix.uses_e8m0() ? 1 : 4);
  };
  const uint64_t inner = spec_.layout == GateUpLayout::separate
                             ? 2 * bytes(spec_.shape.intermediate, spec_.shape.hidden)
                             : bytes(2 * spec_.shape.intermediate, spec_.shape.hidden);
  return inner + bytes(spec_.shape.hidden, spec_.shape.intermediate);
}

}  // namespace megamoe
