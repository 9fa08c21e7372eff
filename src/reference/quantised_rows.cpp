#include "reference/quantised_rows.hpp"

#include <algorithm>
#include <cmath>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "host/errors.hpp"

namespace megamoe::reference {
namespace {

size_t num_groups(uint32_t hidden) { return (hidden + kActivationGroup - 1) / kActivationGroup; }

Result<std::vector<double>> from_bf16(std::span<const Bf16> x, const LayerConfig& config, uint32_t num_tokens) {
  const uint32_t hidden = config.shape.hidden;
  std::vector<double> values(size_t{num_tokens} * hidden);
  if (x.size() != values.size()) {
    return invalid_argument(fmt::format("x must have num_tokens * hidden = {} values", values.size()), x.size(),
                            "pass whole rows");
  }
  std::vector<float> group;
  for (uint32_t token = 0; token < num_tokens; ++token) {
    for (uint32_t first = 0; first < hidden; first += kActivationGroup) {
      const size_t offset = size_t{token} * hidden + first;
      const uint32_t num_cols = std::min(kActivationGroup, hidden - first);
      group.clear();
      for (uint32_t i = 0; i < num_cols; ++i) group.push_back(bf16_to_float(x[offset + i].bits));
      const QuantisedGroup quantised = quantise_group(group, config.activation.scale);
      for (uint32_t i = 0; i < num_cols; ++i) {
        values[offset + i] =
            static_cast<double>(e4m3_to_float(quantised.codes[i])) * static_cast<double>(quantised.scale);
      }
    }
  }
  return values;
}

Result<std::vector<double>> from_fp8(const Fp8Activations& x, uint32_t hidden, uint32_t num_tokens) {
  std::vector<double> values(size_t{num_tokens} * hidden);
  const size_t num_scales = num_tokens * num_groups(hidden);
  const size_t got_scales = std::visit([](const auto& scales) { return scales.size(); }, x.scales);
  if (x.values.size() != values.size() || got_scales != num_scales) {
    return invalid_argument(fmt::format("x must have {} codes and {} scales", values.size(), num_scales),
                            fmt::format("{} and {}", x.values.size(), got_scales), "pass whole rows");
  }
  const auto* f32 = std::get_if<std::span<const float>>(&x.scales);
  for (size_t idx = 0; idx < values.size(); ++idx) {
    const size_t scale_idx = idx / hidden * num_groups(hidden) + idx % hidden / kActivationGroup;
    const float scale =
        f32 != nullptr ? (*f32)[scale_idx] : e8m0_to_float(std::get<std::span<const E8m0>>(x.scales)[scale_idx].bits);
    values[idx] = static_cast<double>(e4m3_to_float(x.values[idx].bits)) * static_cast<double>(scale);
  }
  return values;
}

}  // namespace

float scale_of(float amax, ActivationScale rule) {
  if (amax == 0.0F) return 1.0F;
  const float scale = std::max(amax * (1.0F / 448.0F), 0x1p-126F);
  if (rule == ActivationScale::fp32) return scale;
  int exponent = 0;
  const float fraction = std::frexp(scale, &exponent);  // scale = fraction * 2^exponent, fraction in [0.5, 1)
  return std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
}

QuantisedGroup quantise_group(std::span<const float> values, ActivationScale rule) {
  float amax = 0.0F;
  for (const float value : values) {
    if (std::isfinite(value)) amax = std::max(amax, std::fabs(value));
  }
  QuantisedGroup group;
  group.scale = scale_of(amax, rule);
  const float inverse = 1.0F / group.scale;
  group.codes.reserve(values.size());
  for (const float value : values) {
    group.codes.push_back(std::isfinite(value) ? e4m3_from_float(value * inverse) : kE4m3Nan);
  }
  return group;
}

Result<std::vector<double>> activation_values(const LayerConfig& config, const RankInput& input) {
  if (const auto* bf16 = std::get_if<std::span<const Bf16>>(&input.x))
    return from_bf16(*bf16, config, input.num_tokens);
  return from_fp8(std::get<Fp8Activations>(input.x), config.shape.hidden, input.num_tokens);
}

}  // namespace megamoe::reference
