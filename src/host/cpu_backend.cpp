// The CPU backend of a layer: threads as workers, ranks as thread groups or processes.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cpu/atomics.hpp"
#include "host/backend.hpp"
#include "host/describe.hpp"
#include "host/errors.hpp"
#include "host/packed_experts.hpp"
#include "topology/thread_binding.hpp"

namespace megamoe::internal {
namespace {

/// Everything that the CPU holds of a layer. Between calls nothing in it changes but the workspace's barrier count.
class CpuBackend final : public LayerBackend {
 public:
  CpuBackend(const Plan& plan, GroupState& group, topology::ThreadMap threads)
      : group_(group),
        rules_(cpu_rules(plan)),
        rank_scratch_bytes_(plan.info.scratch_bytes),
        threads_(std::move(threads)) {}

  /// Collective.
  Status fill(const LayerParts& parts);

  Status run(std::span<const LocalCall> calls, std::span<RankStats> stats) override;
  uint64_t workspace_bytes() const override { return memory_->allocated_bytes(); }
  uint64_t scratch_bytes() const override { return scratch_.num_bytes(); }
  uint64_t packed_weight_bytes() const override { return packed_.num_bytes(); }
  std::string dump_workspace(uint32_t local_rank_idx) const override;

 private:
  uint32_t num_workers() const { return rules_.num_workers; }
  void lay_out_ranks();
  void place_buffers();
  void begin_call(std::span<const LocalCall> calls);
  void run_job(uint32_t job_idx);
  Status fault();
  Status refusal() const;
  void collect_stats(std::span<RankStats> stats) const;

  GroupState& group_;
  cpu::LayerRules rules_;
  uint64_t rank_scratch_bytes_;
  topology::ThreadMap threads_;
  std::shared_ptr<SymmetricMemory> memory_;
  PackedExperts packed_;
  PrivateMemory scratch_;
  std::vector<cpu::LocalRank> ranks_;    // [num_local_ranks]
  std::vector<cpu::RankCall> calls_;     // [num_local_ranks], of the call that runs
  std::vector<cpu::WorkerTimes> times_;  // [num_local_ranks * num_workers]
};

Status CpuBackend::fill(const LayerParts& parts) {
  group_.team().grow(group_.num_local_ranks * num_workers(), parts.plan.cpu.num_useful_threads);
  Crew crew(group_, threads_, num_workers());
  auto packed =
      PackedExperts::pack({rules_.placement, parts.plan.info.shape, group_.first_local_rank, group_.num_local_ranks},
                          parts.weights, threads_, crew, parts.config.progress);
  MM_RETURN_IF_ERROR(group_.agree(packed.status()));
  packed_ = *std::move(packed);

  auto scratch = PrivateMemory::allocate(rank_scratch_bytes_ * group_.num_local_ranks);
  MM_RETURN_IF_ERROR(group_.agree(scratch.status()));
  scratch_ = *std::move(scratch);
  auto memory = group_.workspace({Backend::cpu, rules_.dims, num_workers()},
                                 [&] { return group_.allocate(rules_.layout.num_bytes); });
  MM_RETURN_IF_ERROR(group_.agree(memory.status()));
  memory_ = *std::move(memory);
  lay_out_ranks();
  place_buffers();
  return {};
}

void CpuBackend::lay_out_ranks() {
  std::byte* next = scratch_.data();
  for (uint32_t i = 0; i < group_.num_local_ranks; ++i) {
    cpu::LocalRank local;
    local.rank = flow::Rank{group_.first_local_rank + i};
    local.peers = {memory_->bases().data(), &rules_.layout};
    local.own = local.peers.at(local.rank);
    local.experts = packed_.of_rank(i);
    for (uint32_t w = 0; w < num_workers(); ++w) {
      cpu::Scratch worker_scratch;
      next += cpu::Scratch::carve(rules_.dims, next, worker_scratch);
      local.scratch.push_back(worker_scratch);
    }
    ranks_.push_back(std::move(local));
  }
  calls_.resize(ranks_.size());
  times_.resize(ranks_.size() * num_workers());
}

/// Workspace and scratch of each local rank go near its threads, as its weights do.
void CpuBackend::place_buffers() {
  for (uint32_t i = 0; i < group_.num_local_ranks; ++i) {
    const std::vector<uint32_t>& nodes = threads_.nodes(i);
    topology::place_memory(memory_->bases()[group_.first_local_rank + i], rules_.layout.num_bytes, nodes);
    topology::place_memory(scratch_.data() + i * rank_scratch_bytes_, rank_scratch_bytes_, nodes);
  }
}

/// Among processes each rank's verdict travels with it.
void CpuBackend::begin_call(std::span<const LocalCall> calls) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    cpu::RankCall& call = calls_[i];
    call.input = calls[i].input;
    call.output = calls[i].output;
    call.verdict = calls[i].verdict;
    call.barriers_before = memory_->num_barriers;
    call.is_first = memory_->num_barriers == 0;
    call.refusal = {};
    auto* verdict = ranks_[i].own.get<flow::Field::verdict>();
    verdict->code = static_cast<uint32_t>(call.verdict.code());
    const std::string& message = call.verdict.message();
    const size_t length = std::min(message.size(), sizeof(verdict->message) - 1);
    std::memcpy(verdict->message, message.data(), length);
    verdict->message[length] = '\0';
  }
}

void CpuBackend::run_job(uint32_t job_idx) {
  const uint32_t rank_idx = job_idx / num_workers();
  const uint32_t worker_idx = job_idx % num_workers();
  // The first job runs on the caller's thread, which only visits its place.
  if (job_idx > 0) topology::move_to(threads_.place(rank_idx, worker_idx));
  cpu::Worker worker{.rules = rules_,
                     .local = ranks_[rank_idx],
                     .call = calls_[rank_idx],
                     .worker_idx = worker_idx,
                     .scratch = ranks_[rank_idx].scratch[worker_idx],
                     .barrier_idx = memory_->num_barriers};
  cpu::run_worker(worker);
  times_[job_idx] = worker.times;
}

/// Ok, or what the first rank that gave up was waiting for.
Status CpuBackend::fault() {
  const cpu::LocalRank& local = ranks_.front();
  if (cpu::load_acquire(local.own.get<flow::Field::abort_flag>()) == 0U) return {};
  for (uint32_t r = 0; r < rules_.dims.num_ranks; ++r) {
    const auto* record = local.peers.at(flow::Rank{r}).get<flow::Field::fault>();
    if (cpu::load_acquire(&record->is_set) == 2U) return {StatusCode::timeout, fault_words(rules_, *record)};
  }
  return {StatusCode::timeout, "another rank gave up (its record is gone); re-create the group"};
}

Status CpuBackend::refusal() const {
  const flow::CallVerdict& verdict = calls_.front().refusal;
  if (verdict.code == 0U) return {};
  return {static_cast<StatusCode>(verdict.code), verdict.message};
}

void CpuBackend::collect_stats(std::span<RankStats> stats) const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankStats& total = stats[i];
    total = {};
    total.num_workers = num_workers();
    for (uint32_t w = 0; w < num_workers(); ++w) {
      const cpu::WorkerTimes& worker = times_[i * num_workers() + w];
      for (size_t s = 0; s < kNumStages; ++s) total.busy_seconds[s] += worker.busy_seconds[s];
      total.wait_seconds += worker.wait_seconds;
    }
    const uint32_t* rows = ranks_[i].scratch.front().local_rows;
    for (uint32_t e = rules_.dims.num_shared; e < rules_.placement.num_local(ranks_[i].rank); ++e) {
      total.num_rows_received += rows[e];
    }
  }
}

Status CpuBackend::run(std::span<const LocalCall> calls, std::span<RankStats> stats) {
  begin_call(calls);
  const topology::Visit visit(threads_.place(0, 0));
  group_.team().run(
      static_cast<uint32_t>(times_.size()),
      [](void* context, uint32_t job_idx) { static_cast<CpuBackend*>(context)->run_job(job_idx); }, this);
  MM_RETURN_IF_ERROR(fault());
  memory_->num_barriers += cpu::kBarriersPerCall;
  MM_RETURN_IF_ERROR(refusal());
  collect_stats(stats);
  return {};
}

std::string CpuBackend::dump_workspace(uint32_t local_rank_idx) const {
  const std::byte* base = ranks_[local_rank_idx].own.base;
  return internal::dump_workspace(
      rules_, [base](uint64_t offset, std::span<std::byte> to) { std::memcpy(to.data(), base + offset, to.size()); });
}

/// Where the workers of this process run. Processes with one affinity mask share its CPUs, as ranks of one process do;
/// where masks differ, whoever started the processes has dealt out the CPUs. Collective. Errors: unsupported, when
/// `wanted` names a place and the system lets no thread be bound; automatic then is none.
Result<topology::ThreadMap> map_threads(Plan& plan, Pin wanted, GroupState& group) {
  uint64_t mask = 0;
  for (const uint32_t cpu : plan.cpu.topology.cpus()) mask = (mask ^ cpu) * 0x100000001B3U + 1;
  const std::vector<uint64_t> masks = group.all_gather({&mask, 1});
  const bool is_shared =
      std::all_of(masks.begin(), masks.end(), [&](uint64_t other) { return other == masks.front(); });
  const uint32_t num_workers = plan.cpu.num_workers;
  const topology::Workers workers = is_shared ? topology::Workers{group.num_ranks, num_workers, group.first_local_rank}
                                              : topology::Workers{group.num_local_ranks, num_workers, 0};
  topology::ThreadMap threads(plan.cpu.topology, workers, plan.info.pin);
  const Status verdict = topology::try_binding(threads, plan.info.pin);
  if (!verdict.ok() && wanted == Pin::automatic) {
    plan.info.pin = Pin::none;
    return topology::ThreadMap(plan.cpu.topology, workers, Pin::none);
  }
  MM_RETURN_IF_ERROR(verdict);
  return threads;
}

}  // namespace

Result<std::unique_ptr<LayerBackend>> make_cpu_backend(const LayerParts& parts) {
  auto threads = map_threads(parts.plan, parts.config.tuning.pin, parts.group);
  MM_RETURN_IF_ERROR(parts.group.agree(threads.status()));
  auto backend = std::make_unique<CpuBackend>(parts.plan, parts.group, *std::move(threads));
  MM_RETURN_IF_ERROR(backend->fill(parts));
  return std::unique_ptr<LayerBackend>(std::move(backend));
}

}  // namespace megamoe::internal
