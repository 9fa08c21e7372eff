#include "bench_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <numeric>
#include <optional>

#include "check/gpu_state.hpp"
#include "host/errors.hpp"
#include "host/sm90_backend.hpp"
#include "machine.hpp"
#include "progress.hpp"

namespace megamoe::cli {
namespace {

/// The shape that is run: with one_rank_of, a group of one rank with its share of the experts. The same tokens per rank
/// over E / N experts give every expert as many rows as N ranks over E experts.
Result<LayerShape> shape_to_run(const BenchRequest& request, const NamedShape& named) {
  LayerShape shape = named.shape;
  if (shape.top_k > shape.num_experts) {
    return invalid_argument(fmt::format("top_k must be at most the {} experts of --shape", shape.num_experts),
                            shape.top_k, "a token's choices differ; lower k or add experts");
  }
  if (request.one_rank_of == 0) return shape;
  if (request.num_ranks != 1) {
    return invalid_argument("--one-rank-of plays one rank alone, so --ranks must be 1", request.num_ranks,
                            "leave --ranks out");
  }
  if (shape.num_experts % request.one_rank_of != 0) {
    return invalid_argument(fmt::format("--one-rank-of must divide the {} experts", shape.num_experts),
                            request.one_rank_of, "choose a divisor, so that every rank would own as many experts");
  }
  shape.num_experts /= request.one_rank_of;
  if (shape.top_k > shape.num_experts) {
    return invalid_argument(
        fmt::format("--one-rank-of must leave at least top_k = {} experts, as one rank alone has no others to choose",
                    shape.top_k),
        fmt::format("{} experts per rank", shape.num_experts), "choose fewer ranks");
  }
  return shape;
}

Status check_routing(const BenchRequest& request, const LayerShape& shape) {
  if (request.routing.file_top_k == 0 || request.routing.file_top_k == shape.top_k) return {};
  return invalid_argument(fmt::format("the routing file must have the shape's {} ids per token", shape.top_k),
                          request.routing.file_top_k, "use a file for this shape, or change k in --shape H,I,E,k");
}

Status check_memory(const SyntheticWeights& weights, const LayerShape& shape) {
  const uint64_t wanted = weights.routed_expert_bytes() * shape.num_experts;
  const uint64_t available = available_memory_bytes();
  if (available == 0 || wanted <= available) return {};
  return invalid_argument(
      fmt::format("all weights must fit into the available memory, {:.1f} GB", static_cast<double>(available) * 1e-9),
      fmt::format("{:.1f} GB", static_cast<double>(wanted) * 1e-9),
      "use --one-rank-of N to hold one rank's experts only, or a smaller format");
}

SyntheticWeightSpec weight_spec(const NamedShape& named, const LayerShape& shape, WeightFormat format) {
  SyntheticWeightSpec spec;
  spec.shape = shape;
  spec.routed.format = format;
  spec.layout = named.layout;
  spec.biases = named.biases;
  return spec;
}

/// Everything that one call of one batch reads and writes.
struct Batch {
  std::vector<RankInput> inputs;
  std::vector<RankOutput> outputs;
  std::vector<Bf16> y;                // [ranks * tokens, hidden]
  std::vector<uint32_t> expert_rows;  // [num_experts]
};

Batch make_batch(const SyntheticBatch& tokens, const Layer& layer, uint32_t tokens_per_rank) {
  const PlanInfo& plan = layer.plan();
  Batch batch;
  batch.inputs = tokens.split(std::vector<uint32_t>(plan.num_ranks, tokens_per_rank));
  const size_t y_per_rank = size_t{tokens_per_rank} * plan.shape.hidden;
  batch.y.resize(y_per_rank * plan.num_ranks);
  batch.expert_rows.resize(plan.shape.num_experts);
  for (uint32_t rank = 0; rank < plan.num_ranks; ++rank) {
    batch.outputs.push_back(
        {.y = std::span(batch.y).subspan(rank * y_per_rank, y_per_rank),
         .local_expert_rows =
             std::span(batch.expert_rows).subspan(layer.first_expert(rank), layer.num_local_experts(rank))});
  }
  return batch;
}

/// Calls with few tokens take different experts in turn: with the same ones every time, their weights would come out of
/// the last-level cache, and a decode step would look faster than memory.
constexpr uint32_t kNumRotatedBatches = 16;

uint32_t num_batches(const BenchRequest& request, const LayerShape& shape, uint64_t num_tokens) {
  const bool is_given = !request.routing.spec.ids.empty();
  const bool takes_all_experts = num_tokens * shape.top_k >= uint64_t{8} * shape.num_experts;
  return is_given || takes_all_experts ? 1 : kNumRotatedBatches;
}

using StageSeconds = std::array<double, kNumStages>;

struct CallTime {
  double seconds = 0;
  StageSeconds stages{};  ///< per worker
};

/// Of the slowest rank on GPUs, whose time is that between events around its launches; else of the mean rank.
CallTime call_time(const Layer& layer, double wall_seconds) {
  const bool is_gpu = layer.plan().backend != Backend::cpu;
  CallTime time{.seconds = is_gpu ? 0 : wall_seconds, .stages = {}};
  for (const RankStats& rank : layer.stats()) {
    if (is_gpu && rank.device_seconds <= time.seconds) continue;
    if (is_gpu) time = {.seconds = rank.device_seconds, .stages = {}};
    const double num_shares = is_gpu ? rank.num_workers : rank.num_workers * layer.plan().num_ranks;
    for (size_t i = 0; i < kNumStages; ++i) time.stages[i] += rank.busy_seconds[i] / num_shares;
  }
  return time;
}

Result<CallTime> time_call(Layer& layer, const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  MM_RETURN_IF_ERROR(layer.run(batch.inputs, batch.outputs));
  return call_time(layer, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

Result<std::vector<CallTime>> time_calls(const BenchRequest& request, Layer& layer, const std::vector<Batch>& batches) {
  size_t next = 0;
  const auto call_next = [&] { return time_call(layer, batches[next++ % batches.size()]); };
  // Every batch once at least, so that each has its expert rows.
  const size_t num_warmup_calls = std::max<size_t>(request.num_warmup_calls, batches.size());
  for (size_t call = 0; call < num_warmup_calls; ++call) MM_RETURN_IF_ERROR(call_next().status());
  std::vector<CallTime> times;
  double sum = 0;
  while (times.size() < request.num_calls || sum < request.min_seconds) {
    const Result<CallTime> time = call_next();
    MM_RETURN_IF_ERROR(time.status());
    times.push_back(*time);
    sum += time->seconds;
  }
  return times;
}

/// Stages' time added up over the time of their call; 0 where they are not timed one by one.
double overlap(const CallTime& time) {
  const auto num_timed = std::count_if(time.stages.begin(), time.stages.end(), [](double stage) { return stage > 0; });
  if (num_timed < 2 || time.seconds <= 0) return 0;
  return std::accumulate(time.stages.begin(), time.stages.end(), 0.0) / time.seconds;
}

void add_times(const std::vector<CallTime>& times, BenchResult& result) {
  const auto median_of = [&times](const auto& value) {
    std::vector<double> values;
    std::transform(times.begin(), times.end(), std::back_inserter(values), value);
    return median(std::move(values));
  };
  for (const CallTime& time : times) result.call_seconds.push_back(time.seconds);
  std::sort(result.call_seconds.begin(), result.call_seconds.end());
  result.overlap = median_of(overlap);
  for (size_t i = 0; i < kNumStages; ++i) {
    result.stage_seconds[i] = median_of([i](const CallTime& time) { return time.stages[i]; });
  }
  if (result.plan.backend == Backend::cpu) return;
  if (const Result<GpuState> gpu = read_gpu_state(); gpu) result.sm_mhz = gpu->clocks.sm_mhz;
}

/// Of one call: the mean over the batches.
void add_counts(const std::vector<SyntheticBatch>& tokens, const std::vector<Batch>& batches, const Layer& layer,
                BenchResult& result) {
  for (size_t i = 0; i < batches.size(); ++i) {
    for (const uint32_t rows : batches[i].expert_rows) {
      result.num_rows += rows;
      result.num_active_experts += rows > 0 ? 1 : 0;
    }
    const Traffic traffic = count_traffic(tokens[i], layer, result.tokens_per_rank, result.num_gpus);
    result.traffic.row_bytes += traffic.row_bytes;
    result.traffic.link_bytes += traffic.link_bytes;
  }
  result.num_rows /= batches.size();
  result.num_active_experts /= static_cast<uint32_t>(batches.size());
  result.traffic.row_bytes /= batches.size();
  result.traffic.link_bytes /= batches.size();
}

Result<BenchResult> measure(const BenchRequest& request, Layer& layer, uint32_t tokens_per_rank) {
  const PlanInfo& plan = layer.plan();
  SyntheticInputSpec input;
  input.shape = plan.shape;
  input.routing = request.routing.spec;
  const uint32_t num_tokens = tokens_per_rank * plan.num_ranks;
  std::vector<SyntheticBatch> tokens;
  std::vector<Batch> batches;
  tokens.reserve(num_batches(request, plan.shape, num_tokens));
  while (tokens.size() < tokens.capacity()) {
    tokens.emplace_back(input, num_tokens);
    batches.push_back(make_batch(tokens.back(), layer, tokens_per_rank));
    ++input.seed;
  }
  const Result<std::vector<CallTime>> times = time_calls(request, layer, batches);
  MM_RETURN_IF_ERROR(times.status());
  BenchResult result;
  result.shape = plan.shape;
  result.plan = plan;
  result.strategy = layer.stats().front().strategy;
  result.tokens_per_rank = tokens_per_rank;
  result.num_gpus = count_gpus(plan);
  add_times(*times, result);
  add_counts(tokens, batches, layer, result);
  return result;
}

Result<Layer> make_layer(const BenchRequest& request, const NamedShape& named, const LayerShape& shape,
                         const SyntheticWeights& weights, std::string_view label) {
  LayerConfig config;
  config.shape = shape;
  config.max_tokens_per_rank = *std::max_element(request.tokens.begin(), request.tokens.end());
  config.activation = named.activation;
  config.backend = request.backend;
  config.tuning = request.tuning;
  // Bad numbers must be refused before memory is judged by them.
  const Result<PlanInfo> planned = plan(config, request.num_ranks);
  if (!planned) return planned.status();
  MM_RETURN_IF_ERROR(check_memory(weights, shape));
  const Result<Group> group = Group::threads(request.num_ranks);
  if (!group) return group.status();
  internal::set_sm90_l2_state(internal::L2State::flushed);
  Progress progress(fmt::format("packing {}", label));
  config.progress = progress.callback();
  return Layer::create(config, weights, *group);
}

}  // namespace

std::string shape_label(const NamedShape& named) {
  const LayerShape& shape = named.shape;
  if (named.name != "custom") return std::string(named.name);
  return fmt::format("{},{},{},{}", shape.hidden, shape.intermediate, shape.num_experts, shape.top_k);
}

Status check_shape(const BenchRequest& request, const NamedShape& named) {
  const Result<LayerShape> shape = shape_to_run(request, named);
  MM_RETURN_IF_ERROR(shape.status());
  return check_routing(request, *shape);
}

Status bench_layer(const BenchRequest& request, const NamedShape& named, std::optional<Ceilings>& ceilings,
                   std::vector<BenchResult>& results) {
  MM_RETURN_IF_ERROR(check_shape(request, named));
  const Result<LayerShape> shape = shape_to_run(request, named);
  for (const WeightFormat format : request.formats) {
    const SyntheticWeights weights(weight_spec(named, *shape, format));
    const std::string label = fmt::format("{} {}", shape_label(named), to_string(format));
    Result<Layer> layer = make_layer(request, named, *shape, weights, label);
    MM_RETURN_IF_ERROR(layer.status());
    if (!ceilings) {
      const Result<Ceilings> measured = measure_ceilings(layer->plan(), request.cublaslt);
      MM_RETURN_IF_ERROR(measured.status());
      ceilings = *measured;
    }
    Progress progress(fmt::format("timing {}", label));
    for (size_t i = 0; i < request.tokens.size(); ++i) {
      progress.update(i, request.tokens.size());
      Result<BenchResult> result = measure(request, *layer, request.tokens[i]);
      MM_RETURN_IF_ERROR(result.status());
      result->name = shape_label(named);
      result->format = format;
      result->weight_bytes = weights.routed_expert_bytes() * result->num_active_experts;
      result->ceilings = *ceilings;
      results.push_back(*std::move(result));
    }
  }
  return {};
}

}  // namespace megamoe::cli
