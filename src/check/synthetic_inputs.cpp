#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "check/random.hpp"
#include "check/synthetic.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "host/errors.hpp"
#include "reference/quantised_rows.hpp"

namespace megamoe {
namespace {

using check::Stream;

enum class Purpose : uint8_t { activations, experts, mask, router_weights, popularity };

/// The column that SpecialValue::nan and ::inf change, if the row is that wide.
constexpr uint32_t kSpecialColumn = 5;

size_t num_groups(uint32_t hidden) { return (hidden + kActivationGroup - 1) / kActivationGroup; }

/// Draws experts of one token without repeating one.
class ExpertSampler {
 public:
  ExpertSampler(const RoutingSpec& routing, uint32_t num_experts, uint64_t seed) : kind_(routing.kind) {
    pool_size_ = num_experts;
    if (kind_ == RoutingKind::one_expert) fixed_ = std::min(routing.expert, num_experts - 1);
    if (kind_ == RoutingKind::first_experts) pool_size_ = std::clamp(routing.expert, 1U, num_experts);
    if (kind_ != RoutingKind::zipf) return;
    // Popular experts stand anywhere among the ids, as in trained models.
    by_popularity_.resize(num_experts);
    std::iota(by_popularity_.begin(), by_popularity_.end(), 0U);
    const Stream stream(seed, Purpose::popularity);
    for (uint32_t i = num_experts - 1; i > 0; --i) std::swap(by_popularity_[i], by_popularity_[stream.at(i) % (i + 1)]);
    double total = 0;
    for (uint32_t rank = 0; rank < num_experts; ++rank) {
      total += std::pow(rank + 1.0, -routing.zipf_exponent);
      cumulative_.push_back(total);
    }
  }

  void draw(const Stream& stream, std::span<int64_t> ids) const {
    uint64_t position = 0;
    for (size_t k = 0; k < ids.size(); ++k) {
      ids[k] = draw_one(stream, position++);
      if (kind_ == RoutingKind::one_expert || k >= pool_size_) continue;
      const auto is_taken = [&] {
        return std::find(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(k), ids[k]) !=
               ids.begin() + static_cast<ptrdiff_t>(k);
      };
      for (int attempt = 0; attempt < kMaxAttempts && is_taken(); ++attempt) ids[k] = draw_one(stream, position++);
      while (is_taken()) ids[k] = (ids[k] + 1) % pool_size_;
    }
  }

 private:
  static constexpr int kMaxAttempts = 32;  // then the next free id: a steep distribution would draw for ever

  int64_t draw_one(const Stream& stream, uint64_t position) const {
    if (kind_ == RoutingKind::one_expert) return fixed_;
    if (kind_ != RoutingKind::zipf) return static_cast<int64_t>(stream.at(position) % pool_size_);
    const double place = stream.uniform(position) * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), place) - cumulative_.begin();
    return by_popularity_[std::min<size_t>(static_cast<size_t>(found), by_popularity_.size() - 1)];
  }

  RoutingKind kind_;
  uint32_t pool_size_ = 0;
  uint32_t fixed_ = 0;
  std::vector<uint32_t> by_popularity_;
  std::vector<double> cumulative_;
};

/// One token's activations before quantisation.
void make_row(const SyntheticInputSpec& spec, uint32_t token, std::span<float> row) {
  const Stream stream(spec.seed, Purpose::activations, token);
  uint64_t bits = 0;
  for (size_t col = 0; col < row.size(); ++col, bits >>= 16) {
    if (col % 4 == 0) bits = stream.at(col / 4);
    row[col] = spec.mean + check::normal_from(static_cast<uint32_t>(bits & 0xFFFFU));
  }
  const auto first_group = row.first(std::min<size_t>(kActivationGroup, row.size()));
  for (const SpecialToken& special : spec.specials) {
    if (special.token_idx != token) continue;
    const bool is_fp8 = spec.type != InputType::bf16;
    switch (special.value) {
      case SpecialValue::zero_row: std::fill(row.begin(), row.end(), 0.0F); break;
      case SpecialValue::zero_group: std::fill(first_group.begin(), first_group.end(), 0.0F); break;
      case SpecialValue::nan_scale:
      case SpecialValue::nan:
        row[std::min<size_t>(kSpecialColumn, row.size() - 1)] = std::numeric_limits<float>::quiet_NaN();
        break;
      case SpecialValue::inf:
        row[std::min<size_t>(kSpecialColumn, row.size() - 1)] = std::numeric_limits<float>::infinity();
        break;
      case SpecialValue::tiny:
        for (float& value : row) value = is_fp8 ? 0.0F : value * 0x1p-130F;
        break;
      case SpecialValue::huge:
        for (float& value : first_group) value *= 0x1p20F;
        break;
    }
  }
}

bool has_nan_scale(const SyntheticInputSpec& spec, uint32_t token) {
  return std::any_of(spec.specials.begin(), spec.specials.end(), [&](const SpecialToken& special) {
    return special.token_idx == token && special.value == SpecialValue::nan_scale;
  });
}

/// Parses the number behind "name:"; empty if text does not begin with the name or the number is malformed.
template <class Number>
std::optional<Number> number_after(std::string_view text, std::string_view name) {
  if (text.substr(0, name.size()) != name) return std::nullopt;
  text.remove_prefix(name.size());
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<RoutingSpec> parse_routing(std::string_view text) {
  RoutingSpec routing;
  if (text == "uniform") return routing;
  if (const auto exponent = number_after<double>(text, "zipf:"); exponent && *exponent >= 0 && *exponent <= 10) {
    routing.kind = RoutingKind::zipf;
    routing.zipf_exponent = *exponent;
    return routing;
  }
  if (const auto expert = number_after<uint32_t>(text, "one:")) {
    routing.kind = RoutingKind::one_expert;
    routing.expert = *expert;
    return routing;
  }
  if (const auto count = number_after<uint32_t>(text, "first:"); count && *count > 0) {
    routing.kind = RoutingKind::first_experts;
    routing.expert = *count;
    return routing;
  }
  if (const auto fraction = number_after<double>(text, "masked:"); fraction && *fraction >= 0 && *fraction <= 1) {
    routing.masked_fraction = *fraction;
    return routing;
  }
  return invalid_argument(
      "routing must be uniform, zipf:EXPONENT (0 to 10), one:EXPERT, first:COUNT or masked:FRACTION (0 to 1)", text,
      "write for example zipf:1.2");
}

SyntheticBatch::SyntheticBatch(const SyntheticInputSpec& spec, uint32_t num_tokens)
    : shape_(spec.shape), num_tokens_(num_tokens), type_(spec.type), id_type_(spec.ids) {
  fill_activations(spec);
  fill_routing(spec);
}

void SyntheticBatch::fill_activations(const SyntheticInputSpec& spec) {
  const size_t hidden = shape_.hidden;
  std::vector<float> row(hidden);
  const bool is_bf16 = type_ == InputType::bf16;
  const bool is_e8m0 = type_ == InputType::fp8_e8m0_scales;
  const size_t num_scales = num_tokens_ * num_groups(shape_.hidden);
  x_.resize(is_bf16 ? num_tokens_ * hidden : 0);
  codes_.resize(is_bf16 ? 0 : num_tokens_ * hidden);
  f32_scales_.resize(type_ == InputType::fp8_f32_scales ? num_scales : 0);
  e8m0_scales_.resize(is_e8m0 ? num_scales : 0);
  for (uint32_t token = 0; token < num_tokens_; ++token) {
    make_row(spec, token, row);
    if (is_bf16) {
      for (size_t col = 0; col < hidden; ++col) x_[token * hidden + col].bits = bf16_from_float(row[col]);
      continue;
    }
    for (size_t first = 0; first < hidden; first += kActivationGroup) {
      const auto values =
          std::span<const float>(row).subspan(first, std::min<size_t>(kActivationGroup, hidden - first));
      reference::QuantisedGroup group =
          reference::quantise_group(values, is_e8m0 ? ActivationScale::power_of_two : ActivationScale::fp32);
      const size_t scale_idx = token * num_groups(shape_.hidden) + first / kActivationGroup;
      if (is_e8m0 && spec.tiny_e8m0_scales) {
        for (size_t i = 0; i < values.size(); ++i) group.codes[i] = e4m3_from_float(values[i] / 8);
        e8m0_scales_[scale_idx].bits = static_cast<uint8_t>(scale_idx % 2);
      } else if (is_e8m0) {
        e8m0_scales_[scale_idx].bits = e8m0_from_power_of_two(group.scale);
      } else {
        f32_scales_[scale_idx] = group.scale;
      }
      for (size_t i = 0; i < values.size(); ++i) codes_[token * hidden + first + i].bits = group.codes[i];
    }
    if (has_nan_scale(spec, token)) {
      const size_t scale_idx = token * num_groups(shape_.hidden);
      if (is_e8m0) e8m0_scales_[scale_idx].bits = 255;
      if (!is_e8m0) f32_scales_[scale_idx] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

void SyntheticBatch::fill_routing(const SyntheticInputSpec& spec) {
  const RoutingSpec& routing = spec.routing;
  const size_t top_k = shape_.top_k;
  const size_t num_slots = num_tokens_ * top_k;
  ids64_.resize(num_slots);
  router_weights_.resize(num_slots);
  const ExpertSampler sampler(routing, shape_.num_experts, spec.seed);
  for (uint32_t token = 0; token < num_tokens_; ++token) {
    const std::span<int64_t> ids(ids64_.data() + token * top_k, top_k);
    const std::span<float> weights(router_weights_.data() + token * top_k, top_k);
    const Stream mask(spec.seed, Purpose::mask, token);
    const Stream weight(spec.seed, Purpose::router_weights, token);
    sampler.draw(Stream(spec.seed, Purpose::experts, token), ids);
    double total = 0;
    for (size_t k = 0; k < top_k; ++k) {
      if (mask.uniform(k) < routing.masked_fraction) ids[k] = -1;
      total += 0.1 + weight.uniform(k);
    }
    for (size_t k = 0; k < top_k; ++k) weights[k] = static_cast<float>((0.1 + weight.uniform(k)) / total);
  }
  for (size_t slot = 0; slot < num_slots; ++slot) {
    if (!routing.ids.empty()) ids64_[slot] = routing.ids[slot % routing.ids.size()];
    if (!routing.router_weights.empty())
      router_weights_[slot] = routing.router_weights[slot % routing.router_weights.size()];
  }
  ids32_.assign(num_slots, 0);
  std::transform(ids64_.begin(), ids64_.end(), ids32_.begin(), [](int64_t id) { return static_cast<int32_t>(id); });
}

RankInput SyntheticBatch::slice(uint32_t first, uint32_t count) const {
  const size_t hidden = shape_.hidden;
  const size_t groups = num_groups(shape_.hidden);
  const size_t top_k = shape_.top_k;
  RankInput input;
  input.num_tokens = count;
  if (type_ == InputType::bf16) {
    input.x = std::span<const Bf16>(x_).subspan(first * hidden, count * hidden);
  } else {
    Fp8Activations fp8;
    fp8.values = std::span<const Fp8E4m3>(codes_).subspan(first * hidden, count * hidden);
    if (type_ == InputType::fp8_e8m0_scales) {
      fp8.scales = std::span<const E8m0>(e8m0_scales_).subspan(first * groups, count * groups);
    } else {
      fp8.scales = std::span<const float>(f32_scales_).subspan(first * groups, count * groups);
    }
    input.x = fp8;
  }
  if (id_type_ == IdType::int32) {
    input.topk_ids = std::span<const int32_t>(ids32_).subspan(first * top_k, count * top_k);
  } else {
    input.topk_ids = std::span<const int64_t>(ids64_).subspan(first * top_k, count * top_k);
  }
  input.topk_weights = std::span<const float>(router_weights_).subspan(first * top_k, count * top_k);
  return input;
}

std::vector<RankInput> SyntheticBatch::split(const std::vector<uint32_t>& tokens_per_rank) const {
  std::vector<RankInput> inputs;
  uint32_t first = 0;
  for (const uint32_t count : tokens_per_rank) {
    inputs.push_back(slice(first, count));
    first += count;
  }
  return inputs;
}

}  // namespace megamoe
