#include "run_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "console.hpp"
#include "host/errors.hpp"
#include "processes.hpp"
#include "progress.hpp"
#include "reference/reference.hpp"
#include "tokens_file.hpp"

namespace megamoe::cli {
namespace {

/// What goes into the layer: weights, token rows and their routing, all validated against each other.
struct Inputs {
  std::unique_ptr<CheckpointLayer> layer;
  LayerShape shape;
  TokenFile tokens;
  std::string routing;
  std::vector<int32_t> routed_ids;    // [T, K] when the layer's router was used, else empty
  std::vector<float> routed_weights;  // [T, K] likewise

  /// Tokens [first, first + count) as one rank's input; views into this object.
  RankInput slice(uint32_t first, uint32_t count) const {
    const size_t first_slot = size_t{first} * shape.top_k;
    const size_t num_slots = size_t{count} * shape.top_k;
    RankInput input{.num_tokens = count, .x = {}, .topk_ids = {}, .topk_weights = {}};
    input.x = tokens.x.values().subspan(size_t{first} * shape.hidden, size_t{count} * shape.hidden);
    if (tokens.top_k > 0) {
      input.topk_ids = tokens.ids.values().subspan(first_slot, num_slots);
      input.topk_weights = tokens.weights.values().subspan(first_slot, num_slots);
    } else {
      input.topk_ids = std::span<const int32_t>(routed_ids).subspan(first_slot, num_slots);
      input.topk_weights = std::span<const float>(routed_weights).subspan(first_slot, num_slots);
    }
    return input;
  }
};

Status check_format(const RunRequest& request, const MoeLayerInfo& info) {
  if (!request.format || *request.format == info.format) return {};
  return invalid_argument(
      fmt::format("--format must be the format of the model's routed experts, {}", to_string(info.format)),
      to_string(*request.format), "leave --format out, or name another model file");
}

Status check_shared(const RunRequest& request, const MoeLayerInfo& info) {
  if (request.shared == SharedExperts::off || info.shape.num_shared_experts > 0) return {};
  return invalid_argument("--shared on needs a layer with shared experts",
                          fmt::format("0 in layer {} of {}", info.layer_idx, request.model), "use --shared off");
}

Status fit_tokens(const RunRequest& request, Inputs& inputs) {
  const TokenFile& tokens = inputs.tokens;
  LayerShape& shape = inputs.shape;
  if (tokens.hidden != shape.hidden) {
    return invalid_file(fmt::format("{}: x must have the layer's {} columns", tokens.path, shape.hidden), tokens.hidden,
                        "use tokens of this model and layer");
  }
  if (tokens.top_k == 0) return {};
  if (shape.top_k != 0 && tokens.top_k != shape.top_k) {
    return invalid_file(fmt::format("{}: topk_idx must have the layer's {} columns", tokens.path, shape.top_k),
                        tokens.top_k, "use tokens of this model and layer");
  }
  shape.top_k = tokens.top_k;
  inputs.routing = fmt::format("ids and weights of {}", request.tokens);
  return {};
}

/// Uses the layer's router where the token file brings no ids.
Status route_tokens(const RunRequest& request, Inputs& inputs) {
  const std::optional<RouterConfig>& router = inputs.layer->info().router;
  if (inputs.tokens.top_k > 0) return {};
  if (!router) {
    return invalid_file(
        "tokens need expert ids, or a model whose router is complete (weights and config.json)",
        fmt::format("neither in {} nor for layer {} of {}", request.tokens, request.layer_idx, request.model),
        "store topk_idx and topk_weights beside x");
  }
  inputs.shape.top_k = router->top_k;
  inputs.routing = "the layer's router";
  const size_t num_slots = size_t{inputs.tokens.num_tokens} * router->top_k;
  inputs.routed_ids.resize(num_slots);
  inputs.routed_weights.resize(num_slots);
  return route(*router, inputs.layer->router_weights(), inputs.tokens.x.values(), inputs.tokens.num_tokens,
               inputs.routed_ids, inputs.routed_weights);
}

Result<Inputs> open_inputs(const RunRequest& request) {
  Result<Checkpoint> checkpoint = Checkpoint::open(request.model);
  if (!checkpoint) return checkpoint.status();
  Result<std::unique_ptr<CheckpointLayer>> layer = checkpoint->layer(request.layer_idx);
  if (!layer) return layer.status();
  const MoeLayerInfo& info = (*layer)->info();
  MM_RETURN_IF_ERROR(check_format(request, info));
  MM_RETURN_IF_ERROR(check_shared(request, info));
  Result<TokenFile> tokens = read_token_file(request.tokens, request.layer_idx, info.format);
  if (!tokens) return tokens.status();

  Inputs inputs{.layer = nullptr,
                .shape = info.shape,
                .tokens = *std::move(tokens),
                .routing = {},
                .routed_ids = {},
                .routed_weights = {}};
  if (request.shared == SharedExperts::off) inputs.shape.num_shared_experts = 0;
  inputs.layer = *std::move(layer);
  MM_RETURN_IF_ERROR(fit_tokens(request, inputs));
  MM_RETURN_IF_ERROR(route_tokens(request, inputs));
  return inputs;
}

Result<Group> open_group(const RunRequest& request) {
  if (request.group == GroupKind::threads) return Group::threads(request.num_ranks.value_or(1));
  Result<Group> group = Group::mpi();
  if (group && request.num_ranks && *request.num_ranks != group->num_ranks()) {
    return invalid_argument(fmt::format("--ranks must be the number of MPI processes, {}", group->num_ranks()),
                            *request.num_ranks,
                            "leave --ranks out with --group mpi, or start as many processes with mpirun -n");
  }
  return group;
}

Result<std::vector<uint32_t>> split_tokens(const RunRequest& request, uint32_t num_tokens, uint32_t num_ranks) {
  if (request.split.empty()) {
    std::vector<uint32_t> even(num_ranks, num_tokens / num_ranks);
    for (uint32_t rank = 0; rank < num_tokens % num_ranks; ++rank) ++even[rank];
    return even;
  }
  if (request.split.size() != num_ranks) {
    return invalid_argument(fmt::format("--split must have one number per rank, {}", num_ranks), request.split.size(),
                            "for four ranks write --split 100,0,12,16");
  }
  const uint64_t sum = std::accumulate(request.split.begin(), request.split.end(), uint64_t{0});
  if (sum != num_tokens) {
    return invalid_argument(fmt::format("--split must add up to the {} tokens of the file", num_tokens), sum,
                            "change its numbers");
  }
  return request.split;
}

/// Refuses to replace a file that this run reads.
Status check_out(const RunRequest& request) {
  for (const std::string& input : {request.model, request.tokens}) {
    std::error_code none;
    if (request.out.empty() || !std::filesystem::equivalent(request.out, input, none)) continue;
    return invalid_argument("--out must not be a file that the run reads", request.out, "name another file");
  }
  return {};
}

LayerConfig layer_config(const RunRequest& request, const Inputs& inputs, const std::vector<uint32_t>& split) {
  LayerConfig config;
  config.shape = inputs.shape;
  config.max_tokens_per_rank = std::max(1U, *std::max_element(split.begin(), split.end()));
  config.activation = inputs.layer->info().activation;
  config.backend = request.backend;
  config.tuning = request.tuning;
  config.timeout = request.timeout;
  config.start_timeout = request.start_timeout;
  return config;
}

/// Outputs of the ranks of this process, and the views that Layer::run takes.
struct LocalBatch {
  std::vector<RankInput> inputs;
  std::vector<RankOutput> outputs;
  std::vector<Bf16> y;
  std::vector<uint32_t> expert_rows;
};

LocalBatch local_batch(const Inputs& inputs, const Layer& layer, const Group& group,
                       const std::vector<uint32_t>& split) {
  LocalBatch batch;
  const uint32_t first_rank = group.first_local_rank();
  const uint32_t end_rank = first_rank + group.num_local_ranks();
  uint32_t first_token = std::accumulate(split.begin(), split.begin() + first_rank, 0U);
  uint32_t num_tokens = 0;
  uint32_t num_experts = 0;
  for (uint32_t rank = first_rank; rank < end_rank; ++rank) {
    batch.inputs.push_back(inputs.slice(first_token + num_tokens, split[rank]));
    num_tokens += split[rank];
    num_experts += layer.num_local_experts(rank);
  }
  batch.y.resize(size_t{num_tokens} * inputs.shape.hidden);
  batch.expert_rows.resize(num_experts);
  size_t y_idx = 0;
  size_t expert_idx = 0;
  for (uint32_t rank = first_rank; rank < end_rank; ++rank) {
    const size_t num_y = size_t{split[rank]} * inputs.shape.hidden;
    const uint32_t num_rank_experts = layer.num_local_experts(rank);
    batch.outputs.push_back({.y = std::span(batch.y).subspan(y_idx, num_y),
                             .local_expert_rows = std::span(batch.expert_rows).subspan(expert_idx, num_rank_experts)});
    y_idx += num_y;
    expert_idx += num_rank_experts;
  }
  return batch;
}

Status run_calls(const RunRequest& request, Layer& layer, LocalBatch& batch, RunReport& report) {
  for (uint32_t call = 0; call < request.num_calls; ++call) {
    const auto start = std::chrono::steady_clock::now();
    MM_RETURN_IF_ERROR(layer.run(batch.inputs, batch.outputs));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    report.call_seconds.push_back(elapsed.count());
  }
  return {};
}

StageTimes mean_stages(std::span<const RankStats> stats) {
  StageTimes times;
  uint32_t num_workers = 0;
  for (const RankStats& rank : stats) {
    for (size_t i = 0; i < kNumStages; ++i) times.busy_seconds[i] += rank.busy_seconds[i];
    times.wait_seconds += rank.wait_seconds;
    num_workers += rank.num_workers;
  }
  for (double& seconds : times.busy_seconds) seconds /= std::max(1U, num_workers);
  times.wait_seconds /= std::max(1U, num_workers);
  return times;
}

/// Fills what the first process reports about all ranks.
Status gather_report(const Group& group, const Layer& layer, const LocalBatch& batch, RunReport& report) {
  const Result<std::vector<RankStats>> stats = gather<RankStats>(group, layer.stats());
  if (!stats) return stats.status();
  Result<std::vector<uint32_t>> expert_rows = gather<uint32_t>(group, batch.expert_rows);
  if (!expert_rows) return expert_rows.status();
  Result<std::vector<Bf16>> y = gather<Bf16>(group, batch.y);
  if (!y) return y.status();
  for (const RankStats& rank : *stats) report.rows_per_rank.push_back(rank.num_rows_received);
  for (uint32_t rank = 0; rank < group.num_ranks(); ++rank) {
    report.experts_per_rank.push_back(layer.num_local_experts(rank));
  }
  report.stages = mean_stages(*stats);
  report.rows_per_expert = *std::move(expert_rows);
  report.y = *std::move(y);
  return {};
}

Status compare(const RunRequest& request, const LayerConfig& config, const Inputs& inputs, RunReport& report) {
  if (request.checking == Checking::off) return {};
  const Result<ReferenceRows> reference =
      reference_rows(config, *inputs.layer, inputs.slice(0, inputs.tokens.num_tokens), product_sums(config.backend));
  if (!reference) return reference.status();
  report.reference = judge(*reference, report.y);
  // Stored outputs are those of the routed experts alone.
  if (!inputs.tokens.stored || inputs.tokens.num_tokens == 0 || request.shared == SharedExperts::on) return {};
  report.stored =
      StoredCheck{.name = inputs.tokens.stored->name,
                  .comparison = compare_stored(report.y, inputs.tokens.stored->y.values(), inputs.shape.hidden)};
  return {};
}

Status write_outputs(const RunRequest& request, const Inputs& inputs, const RunReport& report) {
  if (request.out.empty()) return {};
  const TensorView y{.name = fmt::format("layers.{}.y", request.layer_idx),
                     .dtype = Dtype::bf16,
                     .shape = {inputs.tokens.num_tokens, inputs.shape.hidden},
                     .bytes = std::as_bytes(std::span(report.y))};
  // Nothing that depends on ranks, tiles or time: equal outputs make equal files.
  const TensorMetadata metadata{{"format", std::string(to_string(report.info.format))},
                                {"shared_experts", request.shared == SharedExperts::on ? "on" : "off"}};
  return write_safetensors(request.out, std::span(&y, 1), metadata);
}

}  // namespace

uint32_t RunReport::num_tokens() const { return std::accumulate(tokens_per_rank.begin(), tokens_per_rank.end(), 0U); }

double RunReport::median_seconds() const { return median(call_seconds); }

bool RunReport::ok() const { return (!reference || reference->ok()) && (!stored || stored->comparison.ok()); }

Result<RunReport> run_layer(const RunRequest& request) {
  MM_RETURN_IF_ERROR(check_out(request));
  Result<Inputs> inputs = open_inputs(request);
  if (!inputs) return inputs.status();
  const Result<Group> group = open_group(request);
  if (!group) return group.status();
  Result<std::vector<uint32_t>> split = split_tokens(request, inputs->tokens.num_tokens, group->num_ranks());
  if (!split) return split.status();

  RunReport report;
  report.is_first_process = is_first_process(*group);
  report.info = inputs->layer->info();
  report.routing = inputs->routing;
  report.tokens_per_rank = *std::move(split);
  report.out = request.out;
  Progress progress("packing", report.is_first_process ? ProgressBar::if_terminal : ProgressBar::never);
  LayerConfig config = layer_config(request, *inputs, report.tokens_per_rank);
  config.progress = progress.callback();
  Result<Layer> layer = Layer::create(config, *inputs->layer, *group);
  if (!layer) return layer.status();
  report.plan = layer->plan();

  LocalBatch batch = local_batch(*inputs, *layer, *group, report.tokens_per_rank);
  MM_RETURN_IF_ERROR(run_calls(request, *layer, batch, report));
  MM_RETURN_IF_ERROR(gather_report(*group, *layer, batch, report));
  if (!report.is_first_process) return report;
  MM_RETURN_IF_ERROR(compare(request, config, *inputs, report));
  MM_RETURN_IF_ERROR(write_outputs(request, *inputs, report));
  return report;
}

}  // namespace megamoe::cli
