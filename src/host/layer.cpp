#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cpu/atomics.hpp"
#include "host/describe.hpp"
#include "host/errors.hpp"
#include "host/group.hpp"
#include "host/packed_experts.hpp"
#include "host/plan.hpp"
#include "host/validate.hpp"
#include "topology/thread_binding.hpp"

namespace megamoe {
namespace internal {

/// Everything a layer owns. Between calls nothing in it changes but the workspace's barrier count.
class LayerState {
 public:
  std::shared_ptr<GroupState> group;
  Plan plan;
  topology::ThreadMap threads;
  std::shared_ptr<SymmetricMemory> memory;
  PackedExperts packed;
  PrivateMemory scratch;
  std::vector<cpu::LocalRank> ranks;    // [num_local_ranks]
  std::vector<cpu::RankCall> calls;     // [num_local_ranks], of the call that runs
  std::vector<cpu::WorkerTimes> times;  // [num_local_ranks * num_workers]
  std::vector<RankStats> stats;         // [num_local_ranks], of the last call
  bool has_run = false;

  uint32_t num_workers() const { return plan.rules.num_workers; }
  void lay_out_ranks();
  void place_buffers();
  Status check_inputs(std::span<const RankInput> inputs, std::span<const RankOutput> outputs);
  void run_job(uint32_t job_idx);
  Status collect_fault();
  Status collect_verdict() const;
  void collect_stats(double wall_seconds);
};

void LayerState::lay_out_ranks() {
  const cpu::LayerRules& rules = plan.rules;
  std::byte* next = scratch.data();
  for (uint32_t i = 0; i < group->num_local_ranks; ++i) {
    cpu::LocalRank local;
    local.rank = flow::Rank{group->first_local_rank + i};
    local.peers = {memory->bases().data(), &rules.layout};
    local.own = local.peers.at(local.rank);
    local.experts = packed.of_rank(i);
    for (uint32_t w = 0; w < rules.num_workers; ++w) {
      cpu::Scratch worker_scratch;
      next += cpu::Scratch::carve(rules.dims, next, worker_scratch);
      local.scratch.push_back(worker_scratch);
    }
    ranks.push_back(std::move(local));
  }
  calls.resize(ranks.size());
  stats.resize(ranks.size());
  times.resize(ranks.size() * rules.num_workers);
}

/// Workspace and scratch of each local rank go near its threads, as its weights do.
void LayerState::place_buffers() {
  const uint64_t scratch_bytes = plan.info.scratch_bytes;
  for (uint32_t i = 0; i < group->num_local_ranks; ++i) {
    const std::vector<uint32_t>& nodes = threads.nodes(i);
    topology::place_memory(memory->bases()[group->first_local_rank + i], plan.rules.layout.num_bytes, nodes);
    topology::place_memory(scratch.data() + i * scratch_bytes, scratch_bytes, nodes);
  }
}

/// Fills `calls`. In one process a refused rank refuses the call at once; among processes its verdict travels with it.
Status LayerState::check_inputs(std::span<const RankInput> inputs, std::span<const RankOutput> outputs) {
  static const RankInput no_input;
  static const RankOutput no_output;
  const LayerShape& shape = plan.info.shape;
  Status count_verdict;
  if (inputs.size() != ranks.size() || outputs.size() != ranks.size()) {
    count_verdict = invalid_argument(
        fmt::format("run must get one input and one output for each of the {} ranks of this process", ranks.size()),
        fmt::format("{} inputs, {} outputs", inputs.size(), outputs.size()), "pass spans of that length");
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    cpu::RankCall& call = calls[i];
    call.verdict = count_verdict;
    call.input = count_verdict.ok() ? &inputs[i] : &no_input;
    call.output = count_verdict.ok() ? &outputs[i] : &no_output;
    call.barriers_before = memory->num_barriers;
    call.is_first = memory->num_barriers == 0;
    call.refusal = {};
    if (call.verdict.ok()) {
      call.verdict = validate_io(shape, plan.info.max_tokens_per_rank, num(ranks[i].rank),
                                 plan.rules.placement.num_routed(ranks[i].rank), *call.input, *call.output);
    }
    if (!call.verdict.ok() && group->num_local_ranks == group->num_ranks) return call.verdict;
    auto* verdict = ranks[i].own.get<flow::Field::verdict>();
    verdict->code = static_cast<uint32_t>(call.verdict.code());
    const std::string& message = call.verdict.message();
    const size_t length = std::min(message.size(), sizeof(verdict->message) - 1);
    std::memcpy(verdict->message, message.data(), length);
    verdict->message[length] = '\0';
  }
  return {};
}

void LayerState::run_job(uint32_t job_idx) {
  const uint32_t rank_idx = job_idx / num_workers();
  const uint32_t worker_idx = job_idx % num_workers();
  // The first job runs on the caller's thread, which only visits its place.
  if (job_idx > 0) topology::move_to(threads.place(rank_idx, worker_idx));
  cpu::Worker worker{.rules = plan.rules,
                     .local = ranks[rank_idx],
                     .call = calls[rank_idx],
                     .worker_idx = worker_idx,
                     .scratch = ranks[rank_idx].scratch[worker_idx],
                     .barrier_idx = memory->num_barriers};
  cpu::run_worker(worker);
  times[job_idx] = worker.times;
}

/// Ok, or what the first rank that gave up was waiting for.
Status LayerState::collect_fault() {
  const cpu::LocalRank& local = ranks.front();
  if (cpu::load_acquire(local.own.get<flow::Field::abort_flag>()) == 0U) return {};
  for (uint32_t r = 0; r < plan.rules.dims.num_ranks; ++r) {
    const auto* fault = local.peers.at(flow::Rank{r}).get<flow::Field::fault>();
    if (cpu::load_acquire(&fault->is_set) == 2U) return {StatusCode::timeout, fault_words(plan.rules, *fault)};
  }
  return {StatusCode::timeout, "another rank gave up (its record is gone); re-create the group"};
}

Status LayerState::collect_verdict() const {
  const flow::CallVerdict& refusal = calls.front().refusal;
  if (refusal.code == 0U) return {};
  return {static_cast<StatusCode>(refusal.code), refusal.message};
}

void LayerState::collect_stats(double wall_seconds) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankStats& total = stats[i];
    total = {};
    total.wall_seconds = wall_seconds;
    total.num_workers = num_workers();
    for (uint32_t w = 0; w < num_workers(); ++w) {
      const cpu::WorkerTimes& worker = times[i * num_workers() + w];
      for (size_t s = 0; s < kNumStages; ++s) total.busy_seconds[s] += worker.busy_seconds[s];
      total.wait_seconds += worker.wait_seconds;
    }
    const uint32_t* rows = ranks[i].scratch.front().local_rows;
    for (uint32_t e = plan.rules.dims.num_shared; e < plan.rules.placement.num_local(ranks[i].rank); ++e) {
      total.num_rows_received += rows[e];
    }
  }
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

/// Where the workers of this process run. Processes with one affinity mask share its CPUs, as ranks of one process do;
/// where masks differ, whoever started the processes has dealt out the CPUs. Collective. Errors: unsupported, when
/// `wanted` names a place and the system lets no thread be bound; automatic then is none.
Result<topology::ThreadMap> map_threads(Plan& plan, Pin wanted, GroupState& group) {
  uint64_t mask = 0;
  for (const uint32_t cpu : plan.topology.cpus()) mask = (mask ^ cpu) * 0x100000001B3U + 1;
  const std::vector<uint64_t> masks = group.all_gather({&mask, 1});
  const bool is_shared =
      std::all_of(masks.begin(), masks.end(), [&](uint64_t other) { return other == masks.front(); });
  const uint32_t num_workers = plan.rules.num_workers;
  const topology::Workers workers = is_shared ? topology::Workers{group.num_ranks, num_workers, group.first_local_rank}
                                              : topology::Workers{group.num_local_ranks, num_workers, 0};
  topology::ThreadMap threads(plan.topology, workers, plan.info.pin);
  const Status verdict = topology::try_binding(threads, plan.info.pin);
  if (!verdict.ok() && wanted == Pin::automatic) {
    plan.info.pin = Pin::none;
    return topology::ThreadMap(plan.topology, workers, Pin::none);
  }
  MM_RETURN_IF_ERROR(verdict);
  return threads;
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
  const cpu::LayerRules& rules = state->plan.rules;
  auto threads = internal::map_threads(state->plan, config.tuning.pin, ranks);
  MM_RETURN_IF_ERROR(ranks.agree(threads.status()));
  state->threads = *std::move(threads);
  ranks.team().grow(ranks.num_local_ranks * rules.num_workers, state->plan.num_useful_threads);
  internal::Crew crew(ranks, state->threads, rules.num_workers);
  auto packed = internal::PackedExperts::pack(
      {rules.placement, state->plan.info.shape, ranks.first_local_rank, ranks.num_local_ranks}, weights, state->threads,
      crew, config.progress);
  MM_RETURN_IF_ERROR(ranks.agree(packed.status()));
  state->packed = *std::move(packed);

  auto scratch = internal::PrivateMemory::allocate(state->plan.info.scratch_bytes * ranks.num_local_ranks);
  MM_RETURN_IF_ERROR(ranks.agree(scratch.status()));
  state->scratch = *std::move(scratch);
  auto memory = ranks.workspace(rules.dims, rules.num_workers, rules.layout.num_bytes);
  MM_RETURN_IF_ERROR(ranks.agree(memory.status()));
  state->memory = *std::move(memory);
  state->lay_out_ranks();
  state->place_buffers();
  return Layer(std::move(state));
}

Status Layer::run(std::span<const RankInput> inputs, std::span<const RankOutput> outputs) {
  internal::LayerState& state = *state_;
  const std::lock_guard lock(state.group->run_mutex());
  if (!state.group->failure.ok()) return state.group->failure;
  MM_RETURN_IF_ERROR(state.check_inputs(inputs, outputs));

  const auto begin = cpu::Clock::now();
  const topology::Visit visit(state.threads.place(0, 0));
  state.group->team().run(
      static_cast<uint32_t>(state.times.size()),
      [](void* context, uint32_t job_idx) { static_cast<internal::LayerState*>(context)->run_job(job_idx); }, &state);
  const double wall_seconds = std::chrono::duration<double>(cpu::Clock::now() - begin).count();

  if (Status fault = state.collect_fault(); !fault.ok()) {
    state.group->failure = {StatusCode::failed_precondition,
                            "the group must not be used after a fault (" + fault.message() + ")"};
    return fault;
  }
  state.memory->num_barriers += cpu::kBarriersPerCall;
  MM_RETURN_IF_ERROR(state.collect_verdict());
  state.collect_stats(wall_seconds);
  state.has_run = true;
  return {};
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

uint64_t Layer::allocated_workspace_bytes() const { return state_->memory->allocated_bytes(); }
uint64_t Layer::allocated_scratch_bytes() const { return state_->scratch.num_bytes(); }
uint64_t Layer::packed_weight_bytes() const { return state_->packed.num_bytes(); }

std::span<const RankStats> Layer::stats() const {
  return state_->has_run ? std::span<const RankStats>(state_->stats) : std::span<const RankStats>();
}

std::string Layer::dump_workspace(uint32_t local_rank) const {
  if (local_rank >= state_->ranks.size()) return {};
  return internal::dump_workspace(state_->plan.rules, state_->ranks[local_rank].own);
}

}  // namespace megamoe
