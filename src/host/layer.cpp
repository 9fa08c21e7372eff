#include <fmt/format.h>

#include <chrono>

#include "host/backend.hpp"
#include "host/errors.hpp"
#include "host/group.hpp"
#include "host/plan.hpp"
#include "host/sm90_backend.hpp"
#include "host/validate.hpp"

namespace megamoe {
namespace internal {

/// Everything a layer owns.
class LayerState {
 public:
  std::shared_ptr<GroupState> group;
  Plan plan;
  std::unique_ptr<LayerBackend> backend;
  std::vector<LocalCall> calls;  // [num_local_ranks], of the call that runs
  std::vector<RankStats> stats;  // [num_local_ranks], of the last call
  bool has_run = false;

  Status check_rank(uint32_t local_rank_idx, const RankInput& input, const RankOutput& output);
  Status check_inputs(std::span<const RankInput> inputs, std::span<const RankOutput> outputs);
  Status run();
};

Status LayerState::check_rank(uint32_t local_rank_idx, const RankInput& input, const RankOutput& output) {
  const uint32_t rank = group->first_local_rank + local_rank_idx;
  MM_RETURN_IF_ERROR(validate_io(plan.info.shape, plan.info.max_tokens_per_rank, rank,
                                 plan.rules.placement.num_routed(flow::Rank{rank}), input, output));
  const auto ids = backend->readable_ids(local_rank_idx, input);
  MM_RETURN_IF_ERROR(ids.status());
  return validate_ids(plan.info.shape, rank, *ids);
}

/// Fills `calls`. In one process a refused rank refuses the call at once; among processes its verdict travels with it.
Status LayerState::check_inputs(std::span<const RankInput> inputs, std::span<const RankOutput> outputs) {
  static const RankInput no_input;
  static const RankOutput no_output;
  Status count_verdict;
  if (inputs.size() != calls.size() || outputs.size() != calls.size()) {
    count_verdict = invalid_argument(
        fmt::format("run must get one input and one output for each of the {} ranks of this process", calls.size()),
        fmt::format("{} inputs, {} outputs", inputs.size(), outputs.size()), "pass spans of that length");
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    LocalCall& call = calls[i];
    call.verdict = count_verdict;
    call.input = count_verdict.ok() ? &inputs[i] : &no_input;
    call.output = count_verdict.ok() ? &outputs[i] : &no_output;
    if (call.verdict.ok()) call.verdict = check_rank(static_cast<uint32_t>(i), *call.input, *call.output);
    if (!call.verdict.ok() && group->num_local_ranks == group->num_ranks) return call.verdict;
  }
  return {};
}

Status LayerState::run() {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = backend->run(calls, stats);
  if (status.code() == StatusCode::timeout || status.code() == StatusCode::internal) {
    group->failure = {StatusCode::failed_precondition,
                      "the group must not be used after a fault (" + status.message() + ")"};
  }
  MM_RETURN_IF_ERROR(status);
  const double wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (RankStats& rank : stats) rank.wall_seconds = wall_seconds;
  has_run = true;
  return {};
}

namespace {

/// Names the first number on which a rank differs from rank 0.
Status check_agreement(const Plan& plan, GroupState& group) {
  const auto mine = agreement(plan);
  std::vector<uint64_t> numbers;
  for (const auto& entry : mine) numbers.push_back(entry.second);
  const std::vector<uint64_t> all = group.all_gather(numbers);
  for (uint32_t r = 1; r < group.num_ranks; ++r) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (all[i] == all[r * numbers.size() + i]) continue;
      return invalid_argument(fmt::format("{} must be the same on every rank", mine[i].first),
                              fmt::format("{} on rank 0, {} on rank {}", all[i], all[r * numbers.size() + i], r),
                              "create the layer with one config");
    }
  }
  return {};
}

}  // namespace
}  // namespace internal

Result<Layer> Layer::create(const LayerConfig& config, const WeightSource& weights, const Group& group) {
  internal::GroupState& ranks = *group.state_;
  if (!ranks.failure.ok()) return ranks.failure;
  auto plan = internal::make_plan(config, ranks.num_ranks);
  MM_RETURN_IF_ERROR(ranks.agree(plan.status()));
  MM_RETURN_IF_ERROR(internal::check_agreement(*plan, ranks));

  auto state = std::make_unique<internal::LayerState>();
  state->group = group.state_;
  state->plan = *std::move(plan);
  const internal::LayerParts parts{state->plan, config, weights, ranks};
  auto backend =
      state->plan.info.backend == Backend::cpu ? internal::make_cpu_backend(parts) : internal::make_sm90_backend(parts);
  MM_RETURN_IF_ERROR(backend.status());
  state->backend = *std::move(backend);
  state->calls.resize(ranks.num_local_ranks);
  state->stats.resize(ranks.num_local_ranks);
  return Layer(std::move(state));
}

Status Layer::run(std::span<const RankInput> inputs, std::span<const RankOutput> outputs) {
  internal::LayerState& state = *state_;
  const std::lock_guard lock(state.group->run_mutex());
  if (!state.group->failure.ok()) return state.group->failure;
  MM_RETURN_IF_ERROR(state.check_inputs(inputs, outputs));
  return state.run();
}

Layer::Layer(std::unique_ptr<internal::LayerState> state) : state_(std::move(state)) {}
Layer::Layer(Layer&&) noexcept = default;
Layer& Layer::operator=(Layer&&) noexcept = default;
Layer::~Layer() = default;

const PlanInfo& Layer::plan() const { return state_->plan.info; }

uint32_t Layer::first_expert(uint32_t rank) const {
  return state_->plan.rules.placement.first_routed(flow::Rank{rank});
}

uint32_t Layer::num_local_experts(uint32_t rank) const {
  return state_->plan.rules.placement.num_routed(flow::Rank{rank});
}

uint64_t Layer::allocated_workspace_bytes() const { return state_->backend->workspace_bytes(); }
uint64_t Layer::allocated_scratch_bytes() const { return state_->backend->scratch_bytes(); }
uint64_t Layer::packed_weight_bytes() const { return state_->backend->packed_weight_bytes(); }

std::span<const RankStats> Layer::stats() const {
  return state_->has_run ? std::span<const RankStats>(state_->stats) : std::span<const RankStats>();
}

std::string Layer::dump_workspace(uint32_t local_rank) const {
  return local_rank < state_->calls.size() ? state_->backend->dump_workspace(local_rank) : std::string();
}

}  // namespace megamoe
