#include "reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "host/errors.hpp"
#include "reference/dense_expert.hpp"
#include "reference/quantised_rows.hpp"

namespace megamoe {
namespace {

using reference::DenseExpert;
using reference::QuantisedGroup;

/// What FP32 sums of products may be off by, relative to the norms of the two factors: 128 additions round by 2^-26 of
/// a partial sum of half the norm on average, which random signs add up to 2^-23.5; this is three times as much.
constexpr double kFp32SumError = 0x1p-22;
/// A tensor core's sum drops what is below this part of its largest term, 32 products and the sum before them at a
/// time.
constexpr double kTensorCoreUnit = 0x1p-13;
constexpr size_t kTensorCoreStep = 32;
/// Standard deviations that random truncations may add up to.
constexpr double kTruncationSigmas = 5;
/// Relative error of the FP32 activation, for arguments of the exponential near zero.
constexpr double kActivationError = 0x1p-21;
/// Largest slope of g * sigmoid(alpha * g) in g, for any alpha.
constexpr double kMaxGluSlope = 1.1;

/// One choice of one token: partial row `slot` of the batch.
struct Visit {
  uint32_t token = 0;
  size_t slot = 0;  ///< token * num_slots + k; shared experts follow k = K - 1
  double router_weight = 1.0;
};

/// The whole computation's state.
struct Work {
  const LayerConfig* config = nullptr;
  ProductSums sums = ProductSums::fp32;
  size_t num_slots = 0;             ///< per token: K + shared experts
  std::vector<double> x;            // [T, H]
  std::vector<double> x_norm;       // [T]
  std::vector<float> partial;       // [T * num_slots, H], BF16 values
  std::vector<uint8_t> is_valid;    // [T * num_slots]
  std::vector<double> slot_weight;  // [T * num_slots], applied at combine
  std::vector<double> flip_slack;   // [T]
};

/// Norms of one expert that bound how far FP32 may be from FP64.
struct ExpertNorms {
  std::vector<double> gate_row;     // [I]
  std::vector<double> up_row;       // [I]
  std::vector<double> down_column;  // [I]
};

/// The intermediate of one visit before its quantisation.
struct Intermediate {
  std::vector<double> value;  // [I]
  std::vector<double> error;  // [I]: what FP32 may be off by
};

double dot(const double* a, const double* b, size_t count) {
  // Eight chains: one would run at the latency of an addition. FP64 does not mind the order.
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double total = 0;
  for (; i < count; ++i) total += a[i] * b[i];
  for (const double sum : sums) total += sum;
  return total;
}

/// How far a tensor core's sums of x * w, promoted every 128 products, may be from the truth. Truncation takes half a
/// unit from each term on average, which products of one sign add up; the rest is random.
double truncation_error(const double* x, const double* w, size_t count) {
  double bias = 0;
  double variance = 0;
  double sum = 0;
  for (size_t first = 0; first < count; first += kTensorCoreStep) {
    if (first % kActivationGroup == 0) sum = 0;
    const size_t end = std::min(count, first + kTensorCoreStep);
    double largest = std::fabs(sum);
    double num_positive = sum > 0 ? 1 : 0;
    double num_negative = sum < 0 ? 1 : 0;
    for (size_t i = first; i < end; ++i) {
      const double product = x[i] * w[i];
      largest = std::max(largest, std::fabs(product));
      num_positive += product > 0 ? 1 : 0;
      num_negative += product < 0 ? 1 : 0;
      sum += product;
    }
    const double unit = largest * kTensorCoreUnit;
    const double unit_after = std::fabs(sum) * kTensorCoreUnit;
    bias += (num_negative - num_positive) * unit / 2 - std::copysign(unit_after / 2, sum);
    variance += ((num_positive + num_negative) * unit * unit + unit_after * unit_after) / 12;
  }
  return std::fabs(bias) + kTruncationSigmas * std::sqrt(variance);
}

ExpertNorms norms_of(const DenseExpert& expert, const LayerShape& shape) {
  ExpertNorms norms;
  for (size_t i = 0; i < shape.intermediate; ++i) {
    const double* gate = expert.gate.data() + i * shape.hidden;
    const double* up = expert.up.data() + i * shape.hidden;
    norms.gate_row.push_back(std::sqrt(dot(gate, gate, shape.hidden)));
    norms.up_row.push_back(std::sqrt(dot(up, up, shape.hidden)));
  }
  norms.down_column.assign(shape.intermediate, 0.0);
  for (size_t idx = 0; idx < expert.down.size(); ++idx) {
    norms.down_column[idx % shape.intermediate] += expert.down[idx] * expert.down[idx];
  }
  for (double& norm : norms.down_column) norm = std::sqrt(norm);
  return norms;
}

/// std::min and std::max would turn NaN into the bound.
double clamp_above(double value, double bound) { return value > bound ? bound : value; }
double clamp_below(double value, double bound) { return value < bound ? bound : value; }

Intermediate gemm1(const Work& work, const Visit& visit, const DenseExpert& expert, const ExpertNorms& norms) {
  const LayerShape& shape = work.config->shape;
  const ActivationOptions& options = work.config->activation;
  const double limit = options.limit ? static_cast<double>(*options.limit) : std::numeric_limits<double>::infinity();
  const auto alpha = static_cast<double>(options.alpha);
  const double weight = options.router_weight == RouterWeightPosition::before_gemm2 ? visit.router_weight : 1.0;
  const double* x = work.x.data() + size_t{visit.token} * shape.hidden;
  Intermediate result;
  for (size_t i = 0; i < shape.intermediate; ++i) {
    const double gate_sum = dot(x, expert.gate.data() + i * shape.hidden, shape.hidden) + expert.gate_bias[i];
    const double up_sum = dot(x, expert.up.data() + i * shape.hidden, shape.hidden) + expert.up_bias[i];
    const double gate = clamp_above(gate_sum, limit);
    const double up = clamp_below(clamp_above(up_sum, limit), -limit) + static_cast<double>(options.up_offset);
    const double glu = gate / (1.0 + std::exp(-alpha * gate));
    const double value = glu * up * weight;
    const double x_norm = work.x_norm[visit.token];
    double gate_error = kFp32SumError * (x_norm * norms.gate_row[i] + std::fabs(expert.gate_bias[i]));
    double up_error = kFp32SumError * (x_norm * norms.up_row[i] + std::fabs(expert.up_bias[i]));
    if (work.sums == ProductSums::fp8_tensor_core) {
      gate_error += truncation_error(x, expert.gate.data() + i * shape.hidden, shape.hidden);
      up_error += truncation_error(x, expert.up.data() + i * shape.hidden, shape.hidden);
    }
    result.value.push_back(value);
    result.error.push_back(std::fabs(weight) * (kMaxGluSlope * std::fabs(up) * gate_error + std::fabs(glu) * up_error) +
                           std::fabs(value) * kActivationError * (1.0 + std::fabs(alpha * gate)));
  }
  return result;
}

/// What a group of the intermediate may be off by because the layer's sums are not FP64's.
struct GroupSlack {
  double flips = 0;           ///< distance by which a row of gemm2 may be off: other codes
  double relative_scale = 0;  ///< the same codes under another scale: of the group's whole contribution
};

GroupSlack group_slack(const QuantisedGroup& group, std::span<const float> values, std::span<const double> errors,
                       std::span<const double> column_norms, ActivationScale rule) {
  double amax = 0;
  double amax_error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto magnitude = static_cast<double>(std::fabs(values[i]));
    if (!std::isfinite(magnitude) || magnitude <= amax) continue;
    amax = magnitude;
    amax_error = errors[i];
  }
  if (amax == 0) return {};
  const auto scale = static_cast<double>(group.scale);
  const double relative = amax_error / amax + 0x1p-22;
  const bool scale_may_differ =
      rule == ActivationScale::power_of_two && reference::scale_of(static_cast<float>(amax * (1 - relative)), rule) !=
                                                   reference::scale_of(static_cast<float>(amax * (1 + relative)), rule);
  double slack_square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double ratio = static_cast<double>(values[i]) / scale;
    const double delta = errors[i] / scale + std::fabs(ratio) * relative;
    const uint8_t low = e4m3_from_float(static_cast<float>(ratio - delta));
    const uint8_t high = e4m3_from_float(static_cast<float>(ratio + delta));
    const double step = scale_may_differ
                            ? std::fabs(ratio) / 16
                            : static_cast<double>(e4m3_to_float(high)) - static_cast<double>(e4m3_to_float(low));
    slack_square += step * scale * column_norms[i] * step * scale * column_norms[i];
  }
  return {std::sqrt(slack_square), rule == ActivationScale::fp32 ? relative : 0.0};
}

/// L2 norm of what columns first .. first + count - 1 of the intermediate add to a row of gemm2.
double contribution_norm(const DenseExpert& expert, const LayerShape& shape, const std::vector<double>& h, size_t first,
                         size_t count) {
  double square_sum = 0;
  for (size_t col = 0; col < shape.hidden; ++col) {
    const double part = dot(h.data() + first, expert.down.data() + col * shape.intermediate + first, count);
    square_sum += part * part;
  }
  return std::sqrt(square_sum);
}

/// Quantises the intermediate, multiplies by down, stores the BF16 partial.
void gemm2(Work& work, const Visit& visit, const DenseExpert& expert, const ExpertNorms& norms,
           const Intermediate& intermediate) {
  const LayerShape& shape = work.config->shape;
  const ActivationOptions& options = work.config->activation;
  const bool weight_is_in = options.router_weight == RouterWeightPosition::before_gemm2;
  const double combine_weight = weight_is_in ? 1.0 : visit.router_weight;
  std::vector<double> h(shape.intermediate);
  double slack = 0;
  for (size_t first = 0; first < shape.intermediate; first += kActivationGroup) {
    const size_t num_cols = std::min<size_t>(kActivationGroup, shape.intermediate - first);
    std::vector<float> values(num_cols);
    for (size_t i = 0; i < num_cols; ++i) values[i] = static_cast<float>(intermediate.value[first + i]);
    const QuantisedGroup group = reference::quantise_group(values, options.scale);
    for (size_t i = 0; i < num_cols; ++i) {
      h[first + i] = static_cast<double>(e4m3_to_float(group.codes[i])) * static_cast<double>(group.scale);
    }
    const GroupSlack group_error = group_slack(group, values, std::span(intermediate.error).subspan(first, num_cols),
                                               std::span(norms.down_column).subspan(first, num_cols), options.scale);
    slack += group_error.flips;
    // FP32's scales are right to a few units in the last place.
    if (work.sums == ProductSums::fp8_tensor_core) {
      slack += group_error.relative_scale * contribution_norm(expert, shape, h, first, num_cols);
    }
  }
  const double bias_weight = weight_is_in ? visit.router_weight : 1.0;
  float* partial = work.partial.data() + visit.slot * shape.hidden;
  for (size_t col = 0; col < shape.hidden; ++col) {
    const double total = dot(h.data(), expert.down.data() + col * shape.intermediate, shape.intermediate);
    partial[col] = bf16_to_float(bf16_from_float(static_cast<float>(total + bias_weight * expert.down_bias[col])));
  }
  work.is_valid[visit.slot] = 1;
  work.slot_weight[visit.slot] = combine_weight;
  if (std::isfinite(slack)) work.flip_slack[visit.token] += std::fabs(combine_weight) * slack;
}

Status run_expert(Work& work, const std::vector<Visit>& visits, const Result<ExpertWeights>& weights,
                  const std::string& name) {
  MM_RETURN_IF_ERROR(weights.status());
  const Result<DenseExpert> expert = reference::dense_expert(*weights, work.config->shape, name);
  MM_RETURN_IF_ERROR(expert.status());
  const ExpertNorms norms = norms_of(*expert, work.config->shape);
  for (const Visit& visit : visits) gemm2(work, visit, *expert, norms, gemm1(work, visit, *expert, norms));
  return {};
}

/// Visits of each routed expert, in slot order.
Result<std::vector<std::vector<Visit>>> routed_visits(const LayerShape& shape, const RankInput& input,
                                                      size_t num_slots) {
  const size_t num_choices = size_t{input.num_tokens} * shape.top_k;
  const size_t num_ids = std::visit([](const auto& ids) { return ids.size(); }, input.topk_ids);
  if (num_ids != num_choices || input.topk_weights.size() != num_choices) {
    return invalid_argument(
        fmt::format("topk_ids and topk_weights must have num_tokens * top_k = {} values", num_choices),
        fmt::format("{} and {}", num_ids, input.topk_weights.size()), "pass whole rows");
  }
  std::vector<std::vector<Visit>> visits(shape.num_experts);
  for (size_t choice = 0; choice < num_choices; ++choice) {
    const int64_t id = std::visit([&](const auto& ids) { return static_cast<int64_t>(ids[choice]); }, input.topk_ids);
    if (id == -1) continue;
    if (id < 0 || id >= int64_t{shape.num_experts}) {
      return invalid_argument(fmt::format("expert ids must be -1 or 0..{}", shape.num_experts - 1), id,
                              "route to the layer's experts");
    }
    const auto token = static_cast<uint32_t>(choice / shape.top_k);
    visits[static_cast<size_t>(id)].push_back({.token = token,
                                               .slot = token * num_slots + choice % shape.top_k,
                                               .router_weight = static_cast<double>(input.topk_weights[choice])});
  }
  return visits;
}

ReferenceRows combine(Work& work, uint32_t num_tokens) {
  const size_t hidden = work.config->shape.hidden;
  ReferenceRows rows;
  rows.num_rows = num_tokens;
  rows.hidden = work.config->shape.hidden;
  rows.y.assign(num_tokens * hidden, 0.0);
  rows.magnitude.assign(num_tokens, 0.0);
  rows.poisoned.assign(num_tokens, 0);
  for (size_t token = 0; token < num_tokens; ++token) {
    double square_sum = 0;
    for (size_t slot = token * work.num_slots; slot < (token + 1) * work.num_slots; ++slot) {
      if (work.is_valid[slot] == 0) continue;
      for (size_t col = 0; col < hidden; ++col) {
        const double value = work.slot_weight[slot] * static_cast<double>(work.partial[slot * hidden + col]);
        rows.y[token * hidden + col] += value;
        if (std::isfinite(value)) square_sum += value * value;
      }
    }
    rows.magnitude[token] = std::sqrt(square_sum);
    const auto* y = rows.y.data() + token * hidden;
    if (std::any_of(y, y + hidden, [](double value) { return std::isnan(value); })) rows.poisoned[token] = 1;
  }
  rows.flip_slack = std::move(work.flip_slack);
  return rows;
}

}  // namespace

Result<ReferenceRows> reference_rows(const LayerConfig& config, const WeightSource& weights, const RankInput& input,
                                     ProductSums sums) {
  const LayerShape& shape = config.shape;
  Work work;
  work.config = &config;
  work.sums = sums;
  work.num_slots = size_t{shape.top_k} + shape.num_shared_experts;
  Result<std::vector<double>> x = reference::activation_values(config, input);
  MM_RETURN_IF_ERROR(x.status());
  work.x = *std::move(x);
  for (size_t token = 0; token < input.num_tokens; ++token) {
    const double* row = work.x.data() + token * shape.hidden;
    work.x_norm.push_back(std::sqrt(dot(row, row, shape.hidden)));
  }
  work.partial.assign(input.num_tokens * work.num_slots * shape.hidden, 0.0F);
  work.is_valid.assign(input.num_tokens * work.num_slots, 0);
  work.slot_weight.assign(input.num_tokens * work.num_slots, 0.0);
  work.flip_slack.assign(input.num_tokens, 0.0);

  const Result<std::vector<std::vector<Visit>>> visits = routed_visits(shape, input, work.num_slots);
  MM_RETURN_IF_ERROR(visits.status());
  for (uint32_t expert_idx = 0; expert_idx < shape.num_experts; ++expert_idx) {
    if ((*visits)[expert_idx].empty()) continue;
    MM_RETURN_IF_ERROR(
        run_expert(work, (*visits)[expert_idx], weights.routed(expert_idx), fmt::format("expert {}", expert_idx)));
  }
  for (uint32_t shared_idx = 0; shared_idx < shape.num_shared_experts && input.num_tokens > 0; ++shared_idx) {
    std::vector<Visit> every_token;
    for (uint32_t token = 0; token < input.num_tokens; ++token) {
      every_token.push_back({.token = token, .slot = token * work.num_slots + shape.top_k + shared_idx});
    }
    MM_RETURN_IF_ERROR(
        run_expert(work, every_token, weights.shared(shared_idx), fmt::format("shared expert {}", shared_idx)));
  }
  return combine(work, input.num_tokens);
}

}  // namespace megamoe
