#include "check/stages/stage_bench.hpp"

#include <algorithm>
#include <optional>

#include "cuda/sm90/device_ranks.hpp"
#include "cuda/sm90/layer_arguments.hpp"
#include "host/describe.hpp"
#include "host/errors.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::stages {
namespace {

using cuda::DeviceMemory;
using sm90::Kernel;
using sm90::Part;

constexpr std::chrono::milliseconds kTimeout{10'000};
constexpr uint64_t kLinkBytes = uint64_t{256} << 20;
constexpr uint32_t kNumLinkCopies = 5;

double seconds_of(uint64_t begin_ns, uint64_t end_ns) { return static_cast<double>(end_ns - begin_ns) * 1e-9; }

/// First begin to last end of some workers' periods.
struct Span {
  uint64_t begin_ns = ~uint64_t{0};
  uint64_t end_ns = 0;
  void add(const sm90::Period& period) {
    begin_ns = std::min(begin_ns, period.begin_ns);
    end_ns = std::max(end_ns, period.end_ns);
  }
};

flow::Dims dims_of(const StageBenchSpec& spec) {
  return {.num_ranks = spec.num_ranks,
          .hidden = spec.shape.hidden,
          .intermediate = spec.shape.intermediate,
          .num_experts = spec.shape.num_experts,
          .num_shared = spec.shape.num_shared_experts,
          .top_k = spec.shape.top_k,
          .max_tokens = spec.tokens_per_rank,
          .block_m = internal::kSm90BlockM,
          .gemm1_block_n = internal::kSm90Gemm1BlockN,
          .gemm2_block_n = internal::kSm90Gemm2BlockN,
          .experts_per_wave = 1};
}

class StageBench {
 public:
  explicit StageBench(const StageBenchSpec& spec) : spec_(spec) {
    rules_ = LayerRules::of(dims_of(spec));
    rules_.timeout = kTimeout;
    rules_.start_timeout = kTimeout;
  }

  Result<StageBenchResult> run() {
    MM_RETURN_IF_ERROR(allocate());
    StageBenchResult result;
    result.num_devices = ranks_->num_devices();
    result.device_name = ranks_->device(0).name;
    for (uint32_t call = 0; call < spec_.num_warmup_calls + spec_.num_calls; ++call) {
      MM_RETURN_IF_ERROR(enqueue_call());
      MM_RETURN_IF_ERROR(ranks_->synchronize());
      MM_RETURN_IF_ERROR(check_faults());
      if (call >= spec_.num_warmup_calls) MM_RETURN_IF_ERROR(collect(result));
    }
    std::sort(result.kernel_seconds.begin(), result.kernel_seconds.end());
    std::sort(result.flow_seconds.begin(), result.flow_seconds.end());
    for (auto& seconds : result.part_seconds) std::sort(seconds.begin(), seconds.end());
    count_bytes(result);
    auto link = measure_link();
    if (!link) return link.status();
    result.link_gbytes_per_s = *link;
    return result;
  }

 private:
  struct RankState {
    std::vector<DeviceMemory> inputs;
    DeviceMemory results;
    DeviceMemory y;
    DeviceMemory periods;
    DeviceMemory flush;
    cuda::Event begin;
    cuda::Event end;
  };

  bool is_dispatch() const { return spec_.stage == TimedStage::dispatch; }
  Kernel timed_kernel() const { return is_dispatch() ? Kernel::dispatch : Kernel::combine; }
  sm90::LaunchShape shape() const { return {spec_.blocks_per_rank, spec_.threads_per_block}; }

  Status allocate() {
    auto ranks = sm90::DeviceRanks::create(spec_.num_ranks, rules_.layout);
    if (!ranks) return ranks.status();
    ranks_ = *std::move(ranks);
    SyntheticInputSpec input;
    input.shape = spec_.shape;
    batch_.emplace(input, spec_.num_ranks * spec_.tokens_per_rank);
    states_.resize(spec_.num_ranks);
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) MM_RETURN_IF_ERROR(allocate_rank(r));
    return {};
  }

  /// A copy of host values on the rank's GPU.
  template <class T>
  Result<const T*> upload(uint32_t rank, std::span<const T> values) {
    auto memory = DeviceMemory::allocate(ranks_->device(rank).ordinal, values.size_bytes());
    if (!memory) return memory.status();
    MM_RETURN_IF_ERROR(
        cuda::check(cudaMemcpy(memory->data(), values.data(), values.size_bytes(), cudaMemcpyDefault), "cudaMemcpy"));
    states_[rank].inputs.push_back(*std::move(memory));
    return states_[rank].inputs.back().as<const T>();
  }

  Status allocate_rank(uint32_t rank) {
    const flow::Dims& dims = rules_.dims;
    const cuda::DeviceInfo& device = ranks_->device(rank);
    const cuda::DeviceScope scope(device.ordinal);
    RankState& state = states_[rank];
    const uint64_t row_bytes = uint64_t{dims.hidden} * sizeof(uint16_t);
    const std::pair<DeviceMemory*, uint64_t> sizes[] = {
        {&state.results, is_dispatch() ? 0 : dims.num_pool_rows() * row_bytes},
        {&state.y, dims.max_tokens * row_bytes},
        {&state.periods, uint64_t{spec_.blocks_per_rank} * sm90::kNumParts * sizeof(sm90::Period)},
        {&state.flush, 2 * device.l2_bytes}};
    for (const auto& [memory, num_bytes] : sizes) {
      auto allocated = DeviceMemory::allocate(device.ordinal, num_bytes);
      if (!allocated) return allocated.status();
      *memory = *std::move(allocated);
    }
    for (cuda::Event* event : {&state.begin, &state.end}) {
      auto created = cuda::Event::create();
      if (!created) return created.status();
      *event = *std::move(created);
    }
    const RankInput input = batch_->slice(rank * spec_.tokens_per_rank, spec_.tokens_per_rank);
    auto x = upload(rank, std::get<std::span<const Bf16>>(input.x));
    if (!x) return x.status();
    auto ids = upload(rank, std::get<std::span<const int32_t>>(input.topk_ids));
    if (!ids) return ids.status();
    auto weights = upload(rank, input.topk_weights);
    if (!weights) return weights.status();

    sm90::Arguments arguments = sm90::layer_arguments(rules_, ranks_->bases(), rank);
    arguments.num_tokens = spec_.tokens_per_rank;
    arguments.row_format = sm90::RowFormat::bf16;
    arguments.id_format = sm90::IdFormat::int32;
    arguments.x = *x;
    arguments.topk_ids = *ids;
    arguments.topk_weights = *weights;
    arguments.results = is_dispatch() ? nullptr : state.results.as<const uint16_t>();
    arguments.y = state.y.as<uint16_t>();
    arguments_.push_back(arguments);
    return {};
  }

  /// Only the kernel that is timed notes its periods: the other's would come between.
  Status launch(Kernel kernel) {
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) {
      arguments_[r].periods = kernel == timed_kernel() ? states_[r].periods.as<sm90::Period>() : nullptr;
    }
    return ranks_->launch(kernel, arguments_, kernel == Kernel::meet ? sm90::LaunchShape{1, 32} : shape());
  }

  Status enqueue_call() {
    if (!is_dispatch()) MM_RETURN_IF_ERROR(launch(Kernel::dispatch));
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) {
      const cuda::DeviceScope scope(ranks_->device(r).ordinal);
      const DeviceMemory& flush = states_[r].flush;
      MM_RETURN_IF_ERROR(
          cuda::check(cudaMemsetAsync(flush.data(), 1, flush.num_bytes(), ranks_->stream(r).get()), "cudaMemsetAsync"));
    }
    MM_RETURN_IF_ERROR(launch(Kernel::meet));
    MM_RETURN_IF_ERROR(record(&RankState::begin));
    MM_RETURN_IF_ERROR(launch(timed_kernel()));
    MM_RETURN_IF_ERROR(record(&RankState::end));
    return is_dispatch() ? launch(Kernel::combine) : Status();
  }

  Status record(cuda::Event RankState::*event) {
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) {
      const cuda::DeviceScope scope(ranks_->device(r).ordinal);
      MM_RETURN_IF_ERROR((states_[r].*event).record(ranks_->stream(r)));
    }
    return {};
  }

  Status check_faults() {
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) {
      flow::FaultRecord fault;
      const uint64_t offset = rules_.layout.offset[static_cast<uint32_t>(flow::Field::fault)];
      MM_RETURN_IF_ERROR(
          cuda::check(cudaMemcpy(&fault, ranks_->bases()[r] + offset, sizeof(fault), cudaMemcpyDefault), "cudaMemcpy"));
      if (fault.is_set != 0U) return {StatusCode::timeout, internal::fault_words(rules_, fault)};
    }
    return {};
  }

  /// The slowest rank's times of the call that just ended.
  Status collect(StageBenchResult& result) {
    double kernel_seconds = 0;
    double flow_seconds = 0;
    std::array<double, sm90::kNumParts> part_seconds{};
    for (uint32_t r = 0; r < spec_.num_ranks; ++r) {
      const auto elapsed = states_[r].end.seconds_since(states_[r].begin);
      if (!elapsed) return elapsed.status();
      kernel_seconds = std::max(kernel_seconds, *elapsed);
      std::vector<sm90::Period> periods(size_t{spec_.blocks_per_rank} * sm90::kNumParts);
      MM_RETURN_IF_ERROR(cuda::check(cudaMemcpy(periods.data(), states_[r].periods.data(),
                                                periods.size() * sizeof(sm90::Period), cudaMemcpyDefault),
                                     "cudaMemcpy"));
      std::array<Span, sm90::kNumParts> spans;
      for (size_t i = 0; i < periods.size(); ++i) {
        if (periods[i].end_ns != 0) spans[i % sm90::kNumParts].add(periods[i]);
      }
      for (uint32_t p = 0; p < sm90::kNumParts; ++p) {
        if (spans[p].end_ns == 0) continue;
        part_seconds[p] = std::max(part_seconds[p], seconds_of(spans[p].begin_ns, spans[p].end_ns));
      }
      const Span& first = spans[static_cast<uint32_t>(is_dispatch() ? Part::count : Part::push)];
      const Span& last = spans[static_cast<uint32_t>(is_dispatch() ? Part::pull : Part::combine)];
      flow_seconds = std::max(flow_seconds, seconds_of(first.begin_ns, last.end_ns));
    }
    result.kernel_seconds.push_back(kernel_seconds);
    result.flow_seconds.push_back(flow_seconds);
    for (uint32_t p = 0; p < sm90::kNumParts; ++p) {
      if (part_seconds[p] > 0) result.part_seconds[p].push_back(part_seconds[p]);
    }
    return {};
  }

  void count_bytes(StageBenchResult& result) const {
    const flow::Dims& dims = rules_.dims;
    const uint64_t bytes_per_row = is_dispatch() ? dims.hidden + dims.hidden_groups() * sizeof(float) + sizeof(float)
                                                 : dims.hidden * sizeof(uint16_t);
    // Rows that each rank's experts receive, in all and from ranks on other GPUs.
    std::vector<uint64_t> rows(spec_.num_ranks);
    std::vector<uint64_t> remote(spec_.num_ranks);
    for (uint32_t home = 0; home < spec_.num_ranks; ++home) {
      const uint64_t first = uint64_t{home} * spec_.tokens_per_rank * dims.top_k;
      for (uint64_t slot = first; slot < first + uint64_t{spec_.tokens_per_rank} * dims.top_k; ++slot) {
        if (batch_->id(slot) < 0) continue;
        const flow::Expert expert{static_cast<uint32_t>(batch_->id(slot))};
        const uint32_t owner = num(rules_.placement.owner(expert, flow::Rank{home}));
        ++rows[owner];
        remote[owner] += ranks_->device(owner).ordinal != ranks_->device(home).ordinal ? 1 : 0;
      }
      rows[home] += uint64_t{spec_.tokens_per_rank} * dims.num_shared;
    }
    result.row_bytes = *std::max_element(rows.begin(), rows.end()) * bytes_per_row;
    result.remote_bytes = *std::max_element(remote.begin(), remote.end()) * bytes_per_row;
  }

  /// GB/s per direction of large copies between the first two GPUs, both ways at once; 0 with one GPU.
  Result<double> measure_link() {
    if (ranks_->num_devices() < 2) return 0.0;
    std::array<DeviceMemory, 2> from;
    std::array<DeviceMemory, 2> to;
    std::array<uint32_t, 2> rank{0, spec_.num_ranks - 1};
    for (size_t i = 0; i < 2; ++i) {
      auto a = DeviceMemory::allocate(ranks_->device(rank[i]).ordinal, kLinkBytes);
      if (!a) return a.status();
      auto b = DeviceMemory::allocate(ranks_->device(rank[1 - i]).ordinal, kLinkBytes);
      if (!b) return b.status();
      from[i] = *std::move(a);
      to[i] = *std::move(b);
    }
    double slowest = 0;
    for (uint32_t pass = 0; pass < 2; ++pass) {  // the first one warms up
      for (size_t i = 0; i < 2; ++i) {
        const cuda::DeviceScope scope(ranks_->device(rank[i]).ordinal);
        MM_RETURN_IF_ERROR(states_[rank[i]].begin.record(ranks_->stream(rank[i])));
        for (uint32_t copy = 0; copy < kNumLinkCopies; ++copy) {
          MM_RETURN_IF_ERROR(cuda::check(cudaMemcpyAsync(to[i].data(), from[i].data(), kLinkBytes, cudaMemcpyDefault,
                                                         ranks_->stream(rank[i]).get()),
                                         "cudaMemcpyAsync"));
        }
        MM_RETURN_IF_ERROR(states_[rank[i]].end.record(ranks_->stream(rank[i])));
      }
      MM_RETURN_IF_ERROR(ranks_->synchronize());
      slowest = 0;
      for (size_t i = 0; i < 2; ++i) {
        const auto elapsed = states_[rank[i]].end.seconds_since(states_[rank[i]].begin);
        if (!elapsed) return elapsed.status();
        slowest = std::max(slowest, *elapsed);
      }
    }
    return static_cast<double>(kLinkBytes) * kNumLinkCopies / slowest * 1e-9;
  }

  StageBenchSpec spec_;
  LayerRules rules_;
  std::optional<sm90::DeviceRanks> ranks_;
  std::optional<SyntheticBatch> batch_;
  std::vector<RankState> states_;
  std::vector<sm90::Arguments> arguments_;
};

}  // namespace

Result<StageBenchResult> bench_stage(const StageBenchSpec& spec) { return StageBench(spec).run(); }

}  // namespace megamoe::stages
