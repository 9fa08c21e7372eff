// The Hopper backend of a layer: ranks on GPUs, one launch after the other.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "cuda/host/sm90_io.hpp"
#include "cuda/host/sm90_weights.hpp"
#include "cuda/sm90/device_ranks.hpp"
#include "cuda/sm90/gemm_plan.hpp"
#include "cuda/sm90/layer_arguments.hpp"
#include "host/describe.hpp"
#include "host/errors.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::internal {

using cuda::check;
using sm90::Kernel;

static_assert(kMaxRanksPerGpu == sm90::kMaxVirtualRanks);
static_assert(kSm90BlockM == sm90::chain_config(sm90::Strategy::cooperative, sm90::Phases::both).max_block_m &&
              kSm90BlockM == sm90::chain_config(sm90::Strategy::small_batch, sm90::Phases::both).max_block_m &&
              kSm90PingpongBlockM == sm90::chain_config(sm90::Strategy::pingpong, sm90::Phases::both).max_block_m);
static_assert(kSm90Gemm1BlockN == sm90::kGemm1BlockN && kSm90Gemm2BlockN == sm90::kGemm2BlockN);

namespace {

/// One launch of a call, and the stage that its time is put down to.
struct Link {
  sm90::GridKind grid;
  Stage stage;
  uint32_t threads_per_block;
};

/// The launches of a call in order. Only where each is one stage is each timed: an event between two launches costs
/// about a microsecond.
struct Chain {
  Strategy strategy;
  Fusion fusion;
  std::vector<Link> links;
};
constexpr uint32_t kMaxLinks = 4;

Chain make_chain(Fusion fusion, Strategy strategy, sm90::Strategy how) {
  constexpr uint32_t kPlainThreads = sm90::LaunchShape{}.threads_per_block;
  std::vector<Link> links = {{Kernel::dispatch, Stage::pull, kPlainThreads}};
  if (fusion == Fusion::chain) {
    links.push_back({{Kernel::gemm1, how}, Stage::gemm1, sm90::kGemmThreads});
    links.push_back({{Kernel::gemm2, how}, Stage::gemm2, sm90::kGemmThreads});
  } else {
    links.push_back({{Kernel::gemms, how}, Stage::gemm1, sm90::kGemmThreads});
  }
  links.push_back({Kernel::combine, Stage::combine, kPlainThreads});
  return {strategy, fusion, std::move(links)};
}

std::vector<Chain> make_chains() {
  std::vector<Chain> chains;
  for (const Fusion fusion : {Fusion::gemms, Fusion::chain}) {
    chains.push_back(make_chain(fusion, Strategy::cooperative, sm90::Strategy::cooperative));
    chains.push_back(make_chain(fusion, Strategy::pingpong, sm90::Strategy::pingpong));
    chains.push_back(make_chain(fusion, Strategy::small_batch, sm90::Strategy::small_batch));
  }
  return chains;
}

/// exchange, before combine, after reset.
constexpr uint64_t kBarriersPerCall = 3;

/// A flush writes this many times L2's size: enough to leave nothing else there, and to keep the GPU busy until the
/// launches behind it are queued.
constexpr uint64_t kFlushedL2s = 4;
std::atomic<L2State> g_l2_state = L2State::as_it_is;

/// Workspaces in GPU memory, with the streams that work on them.
class DeviceWorkspaces final : public SymmetricMemory {
 public:
  explicit DeviceWorkspaces(sm90::DeviceRanks ranks, uint64_t num_bytes) : ranks_(std::move(ranks)) {
    bases_.assign(ranks_.bases().begin(), ranks_.bases().end());
    allocated_bytes_ = bases_.size() * num_bytes;
  }
  const sm90::DeviceRanks& ranks() const { return ranks_; }

 private:
  sm90::DeviceRanks ranks_;
};

/// The ranks that one GPU plays, and the times at which its launches begin and the last one ends.
struct Gpu {
  uint32_t first_rank = 0;
  uint32_t num_ranks = 0;
  std::array<cuda::Event, kMaxLinks + 1> times;
  cuda::DeviceMemory flush;  ///< empty: calls find L2 as it is
};

class Sm90Backend final : public LayerBackend {
 public:
  Sm90Backend(const Plan& plan, std::shared_ptr<DeviceWorkspaces> memory)
      : rules_(plan.rules),
        blocks_per_rank_(plan.sm90.blocks_per_rank),
        strategy_(plan.info.strategy),
        fusion_(plan.info.fusion),
        memory_(std::move(memory)) {
    // Ranks of one process start together: the fault record's words must name the limit that held.
    rules_.start_timeout = rules_.timeout;
  }

  Status fill(const LayerParts& parts);

  Result<RouterIds> readable_ids(uint32_t local_rank_idx, const RankInput& input) override {
    return io_[local_rank_idx].readable_ids(input);
  }
  Status run(std::span<const LocalCall> calls, std::span<RankStats> stats) override;
  uint64_t workspace_bytes() const override { return memory_->allocated_bytes(); }
  uint64_t scratch_bytes() const override;
  uint64_t packed_weight_bytes() const override;
  std::string dump_workspace(uint32_t local_rank_idx) const override;

 private:
  const sm90::DeviceRanks& ranks() const { return memory_->ranks(); }
  Status find_gpus();
  Status check_residency(const Gpu& gpu, const Link& link) const;
  Status check_residency() const;
  const Chain& choose_chain() const;
  void set_arguments();
  Status launch(const Chain& chain) const;
  Status fault() const;
  Status collect_stats(const Chain& chain, std::span<RankStats> stats) const;

  LayerRules rules_;
  uint32_t blocks_per_rank_;
  Strategy strategy_;
  Fusion fusion_;
  std::vector<Chain> chains_ = make_chains();
  std::shared_ptr<DeviceWorkspaces> memory_;
  std::vector<Gpu> gpus_;
  std::vector<RankWeights> weights_;        // [num_ranks]
  std::vector<RankIo> io_;                  // [num_ranks]
  std::vector<sm90::Arguments> arguments_;  // [num_ranks], of the call that runs
};

Status Sm90Backend::fill(const LayerParts& parts) {
  MM_RETURN_IF_ERROR(find_gpus());
  MM_RETURN_IF_ERROR(check_residency());
  std::vector<int> ordinals;
  for (uint32_t r = 0; r < ranks().num_ranks(); ++r) {
    ordinals.push_back(ranks().device(r).ordinal);
    auto io = RankIo::create(ordinals.back(), rules_.dims, rules_.placement.num_routed(flow::Rank{r}));
    MM_RETURN_IF_ERROR(io.status());
    io_.push_back(*std::move(io));
  }
  auto weights = RankWeights::upload({rules_.placement, parts.plan.info.shape, 0, ranks().num_ranks()}, parts.weights,
                                     ordinals, parts.config.progress);
  MM_RETURN_IF_ERROR(weights.status());
  weights_ = *std::move(weights);
  set_arguments();
  return {};
}

Status Sm90Backend::find_gpus() {
  for (uint32_t r = 0; r < ranks().num_ranks(); ++r) {
    if (r > 0 && ranks().device(r).ordinal == ranks().device(r - 1).ordinal) {
      ++gpus_.back().num_ranks;
      continue;
    }
    Gpu gpu{.first_rank = r, .num_ranks = 1, .times = {}, .flush = {}};
    const cuda::DeviceScope scope(ranks().device(r).ordinal);
    for (cuda::Event& time : gpu.times) {
      auto event = cuda::Event::create();
      MM_RETURN_IF_ERROR(event.status());
      time = *std::move(event);
    }
    if (g_l2_state == L2State::flushed) {
      const cuda::DeviceInfo& device = ranks().device(r);
      auto flush = cuda::DeviceMemory::allocate(device.ordinal, kFlushedL2s * device.l2_bytes);
      MM_RETURN_IF_ERROR(flush.status());
      gpu.flush = *std::move(flush);
    }
    gpus_.push_back(std::move(gpu));
  }
  return {};
}

/// REQUIRES the GPU is current.
Status Sm90Backend::check_residency(const Gpu& gpu, const Link& link) const {
  const auto most = sm90::max_resident_blocks(link.grid, rules_.dims, link.threads_per_block);
  MM_RETURN_IF_ERROR(most.status());
  const uint32_t wanted = gpu.num_ranks * blocks_per_rank_;
  if (wanted <= *most) return {};
  return error(StatusCode::unsupported,
               fmt::format("GPU {} must have room for {} blocks of {} at once", ranks().device(gpu.first_rank).ordinal,
                           wanted, sm90::to_string(link.grid)),
               *most, "make a group of fewer ranks, or use another GPU");
}

/// Blocks wait for each other, so all must be resident. Loads the kernels on the way: doing it while another GPU's
/// kernel waits for this one's could last for ever.
Status Sm90Backend::check_residency() const {
  for (const Gpu& gpu : gpus_) {
    const cuda::DeviceScope scope(ranks().device(gpu.first_rank).ordinal);
    for (const Chain& chain : chains_) {
      // Blocks of more rows than pingpong takes rule it out for this layer.
      if (chain.strategy == Strategy::pingpong && rules_.dims.block_m > kSm90PingpongBlockM) continue;
      for (const Link& link : chain.links) MM_RETURN_IF_ERROR(check_residency(gpu, link));
    }
  }
  return {};
}

void Sm90Backend::set_arguments() {
  for (uint32_t r = 0; r < ranks().num_ranks(); ++r) {
    sm90::Arguments arguments = sm90::layer_arguments(rules_, memory_->bases(), r);
    arguments.gemm1 = weights_[r].gemm1();
    arguments.gemm2 = weights_[r].gemm2();
    arguments_.push_back(arguments);
  }
}

/// For the call whose arguments are set.
const Chain& Sm90Backend::choose_chain() const {
  uint64_t num_rows = 0;
  for (const sm90::Arguments& arguments : arguments_) num_rows += uint64_t{arguments.num_tokens} * rules_.dims.top_k;
  const Strategy strategy = choose_strategy(strategy_, num_rows, rules_.dims.num_experts);
  const Fusion fusion = choose_fusion(fusion_, num_rows, rules_.dims.num_experts);
  return *std::find_if(chains_.begin(), chains_.end(),
                       [&](const Chain& chain) { return chain.strategy == strategy && chain.fusion == fusion; });
}

Status Sm90Backend::launch(const Chain& chain) const {
  for (const Gpu& gpu : gpus_) {
    if (gpu.flush.num_bytes() == 0) continue;
    MM_RETURN_IF_ERROR(
        check(cudaMemsetAsync(gpu.flush.data(), 1, gpu.flush.num_bytes(), ranks().stream(gpu.first_rank).get()),
              "flushing L2"));
  }
  const size_t num_links = chain.links.size();
  for (size_t i = 0; i <= num_links; ++i) {
    if (i == 0 || i == num_links || chain.fusion == Fusion::chain) {
      for (const Gpu& gpu : gpus_) MM_RETURN_IF_ERROR(gpu.times[i].record(ranks().stream(gpu.first_rank)));
    }
    if (i == num_links) break;
    const Link& link = chain.links[i];
    MM_RETURN_IF_ERROR(ranks().launch(link.grid, arguments_, {blocks_per_rank_, link.threads_per_block}));
  }
  return {};
}

/// Ok, or what the first rank that gave up was waiting for.
Status Sm90Backend::fault() const {
  for (const RankIo& io : io_) {
    if (io.fault().is_set == sync::kFaultIsSet) return {StatusCode::timeout, fault_words(rules_, io.fault())};
  }
  return {};
}

Status Sm90Backend::collect_stats(const Chain& chain, std::span<RankStats> stats) const {
  for (const Gpu& gpu : gpus_) {
    RankStats times;
    times.num_workers = blocks_per_rank_;
    times.strategy = chain.strategy;
    const size_t num_links = chain.links.size();
    for (size_t i = 0; chain.fusion == Fusion::chain && i < num_links; ++i) {
      const auto seconds = gpu.times[i + 1].seconds_since(gpu.times[i]);
      MM_RETURN_IF_ERROR(seconds.status());
      times.busy_seconds[static_cast<size_t>(chain.links[i].stage)] += *seconds * blocks_per_rank_;
    }
    const auto all = gpu.times[num_links].seconds_since(gpu.times[0]);
    MM_RETURN_IF_ERROR(all.status());
    times.device_seconds = *all;
    for (uint32_t r = gpu.first_rank; r < gpu.first_rank + gpu.num_ranks; ++r) {
      stats[r] = times;
      for (const uint32_t rows : io_[r].local_expert_rows()) stats[r].num_rows_received += rows;
    }
  }
  return {};
}

/// REQUIRES verdicts that are ok: in one process the layer refuses a call itself.
Status Sm90Backend::run(std::span<const LocalCall> calls, std::span<RankStats> stats) {
  for (uint32_t r = 0; r < ranks().num_ranks(); ++r) {
    MM_RETURN_IF_ERROR(io_[r].stage_in(*calls[r].input, *calls[r].output, ranks().stream(r).get(), arguments_[r]));
  }
  const Chain& chain = choose_chain();
  MM_RETURN_IF_ERROR(launch(chain));
  for (uint32_t r = 0; r < ranks().num_ranks(); ++r) {
    MM_RETURN_IF_ERROR(io_[r].stage_out(*calls[r].output, memory_->bases()[r], ranks().stream(r).get(), arguments_[r]));
  }
  MM_RETURN_IF_ERROR(ranks().synchronize());
  MM_RETURN_IF_ERROR(fault());
  memory_->num_barriers += kBarriersPerCall;
  return collect_stats(chain, stats);
}

uint64_t Sm90Backend::scratch_bytes() const { return io_.size() * Sm90Staging::of(rules_.dims).num_bytes; }

uint64_t Sm90Backend::packed_weight_bytes() const {
  uint64_t num_bytes = 0;
  for (const RankWeights& rank : weights_) num_bytes += rank.num_bytes();
  return num_bytes;
}

std::string Sm90Backend::dump_workspace(uint32_t local_rank_idx) const {
  const std::byte* base = memory_->bases()[local_rank_idx];
  return internal::dump_workspace(rules_, [base](uint64_t offset, std::span<std::byte> to) {
    // What cannot be read stays as it is: a dump is for people who debug, after whatever went wrong.
    (void)cudaMemcpy(to.data(), base + offset, to.size(), cudaMemcpyDefault);
  });
}

}  // namespace

Result<HopperGpus> find_hopper_gpus() {
  const auto devices = cuda::hopper_devices();
  MM_RETURN_IF_ERROR(devices.status());
  HopperGpus gpus{.num_gpus = static_cast<uint32_t>(devices->size()), .num_sms = devices->front().num_sms};
  for (const cuda::DeviceInfo& device : *devices) gpus.num_sms = std::min(gpus.num_sms, device.num_sms);
  return gpus;
}

void set_sm90_l2_state(L2State state) { g_l2_state = state; }

Result<std::unique_ptr<LayerBackend>> make_sm90_backend(const LayerParts& parts) {
  GroupState& group = parts.group;
  if (group.num_local_ranks != group.num_ranks) {
    return error(StatusCode::unsupported, "all ranks of a group on sm90 must live in one process",
                 fmt::format("{} of {}", group.num_local_ranks, group.num_ranks), "use Group::threads");
  }
  const LayerRules& rules = parts.plan.rules;
  auto memory = group.workspace({Backend::sm90, rules.dims, parts.plan.sm90.blocks_per_rank},
                                [&]() -> Result<std::unique_ptr<SymmetricMemory>> {
                                  auto ranks = sm90::DeviceRanks::create(group.num_ranks, rules.layout);
                                  MM_RETURN_IF_ERROR(ranks.status());
                                  return std::unique_ptr<SymmetricMemory>(
                                      std::make_unique<DeviceWorkspaces>(*std::move(ranks), rules.layout.num_bytes));
                                });
  MM_RETURN_IF_ERROR(memory.status());
  auto backend = std::make_unique<Sm90Backend>(parts.plan, std::static_pointer_cast<DeviceWorkspaces>(*memory));
  MM_RETURN_IF_ERROR(backend->fill(parts));
  return std::unique_ptr<LayerBackend>(std::move(backend));
}

}  // namespace megamoe::internal
