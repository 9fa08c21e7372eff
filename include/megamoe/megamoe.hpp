#pragma once

// MegaMoE: one Mixture-of-Experts layer forward under expert parallelism. Start here.
//
//   auto group = megamoe::Group::threads(4);                              // four ranks in this process
//   auto layer = megamoe::Layer::create(config, weights, *group);        // validate, plan, pack
//   megamoe::Status status = layer->run(inputs, outputs);                 // one call, no allocation
//
// See examples/minimal.cpp for a whole program and docs/tour.md for a reading order.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe {

/// "0.1.0".
std::string_view version();

// ---------------------------------------------------------------- group

namespace internal {
class GroupState;
class LayerState;
}  // namespace internal

/// The ranks that share a layer's experts. Copyable handle; the group lives until its last handle and layer go.
class Group {
 public:
  /// `num_ranks` ranks in this process, each a group of worker threads. Errors: num_ranks not in 1..64.
  static Result<Group> threads(uint32_t num_ranks);
  /// One rank per MPI process of MPI_COMM_WORLD, all on one host, over one shared window. Initialises MPI if nobody
  /// has. Errors: built without MPI; processes on more than one host; more than 64 ranks.
  static Result<Group> mpi();

  uint32_t num_ranks() const;
  /// Ranks that live in this process: all of them for threads(), one for mpi().
  uint32_t num_local_ranks() const;
  /// First rank that lives in this process.
  uint32_t first_local_rank() const;

 private:
  friend class Layer;
  explicit Group(std::shared_ptr<internal::GroupState> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::GroupState> state_;
};

// ---------------------------------------------------------------- layer

/// Where a layer runs. `automatic` takes the CPU.
enum class Backend : uint8_t {
  automatic,
  cpu,
  sm90,   ///< Hopper GPUs
  sm100,  ///< Blackwell GPUs
  chain,  ///< Hopper GPUs, one launch per stage: what sm90 must equal bit for bit
};
/// "auto", "cpu", "sm90", "sm100", "chain".
std::string_view to_string(Backend backend);
/// REQUIRES one of the names of to_string(Backend); anything else is an error that lists them.
Result<Backend> parse_backend(std::string_view name);

/// Instruction set of the CPU kernels; `automatic` takes the widest that this CPU has. scalar, avx2 and avx512 give the
/// same bits; avx512_bf16 (BF16 dot products) and amx_bf16 (BF16 tiles) add products in orders of their own, within the
/// same error bound.
enum class Isa : uint8_t { automatic, scalar, avx2, avx512, avx512_bf16, amx_bf16 };
std::string_view to_string(Isa isa);
Result<Isa> parse_isa(std::string_view name);

/// Where worker threads may run. Memory follows them: a rank's weights and workspace are near the NUMA node that its
/// threads may run on, or dealt over all such nodes.
enum class Pin : uint8_t {
  automatic,  ///< node where the threads fill several NUMA nodes, else none
  none,       ///< the system moves threads as it likes
  node,       ///< each thread stays on one NUMA node; ranks take contiguous shares of the machine
  core,       ///< each thread stays on one core; only for a machine, or an affinity mask, that nobody else uses
};
/// "auto", "none", "node", "core".
std::string_view to_string(Pin pin);
Result<Pin> parse_pin(std::string_view name);

/// How the Hopper kernels lay gemm1's and gemm2's tiles on the tensor cores. All give the same bits; `automatic`
/// chooses in every call by a rule that the plan tells.
enum class Strategy : uint8_t {
  automatic,
  cooperative,  ///< two math groups share every tile: rows of the pool are M
  pingpong,     ///< two math groups on different tiles, so that one's epilogue runs while the other multiplies
  small_batch,  ///< weights are M, rows of the pool are N: no padding where an expert has few rows
};
/// "auto", "cooperative", "pingpong", "small_batch".
std::string_view to_string(Strategy strategy);
Result<Strategy> parse_strategy(std::string_view name);

/// Zero means "choose for me". None of these changes one bit of the result, but for the instruction sets that Isa
/// names.
struct Tuning {
  /// 0: CPUs of the affinity mask, or the CPU quota rounded up where that is less, divided by the ranks; at least 1.
  uint32_t threads_per_rank = 0;
  uint32_t block_m = 0;           ///< pool rows per block: 16, 32, 64, 128 or 256
  uint32_t gemm1_block_n = 0;     ///< intermediate columns per gemm1 tile; a multiple of 128
  uint32_t gemm2_block_n = 0;     ///< hidden columns per gemm2 tile; a multiple of 16
  uint32_t experts_per_wave = 0;  ///< local experts whose gemm1 tiles come before their gemm2 tiles
  Isa isa = Isa::automatic;
  Pin pin = Pin::automatic;                 ///< need not be the same on every rank
  Strategy strategy = Strategy::automatic;  ///< only for sm90 and chain
};

/// Everything that fixes a layer but its weights.
struct LayerConfig {
  LayerShape shape;
  uint32_t max_tokens_per_rank = 0;
  ActivationOptions activation;
  Backend backend = Backend::automatic;
  Tuning tuning;
  /// Longest wait for another rank or worker before a call returns StatusCode::timeout.
  std::chrono::milliseconds timeout{60'000};
  /// The same for the first call on a workspace: ranks may start minutes apart. The longer of the two counts.
  std::chrono::milliseconds start_timeout{600'000};
  /// Called while weights are packed, from the calling thread: (experts done, experts in all). May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

/// Hands out one expert at a time while a layer packs its weights; only experts of local ranks are asked for, and each
/// view needs to stay valid only until the next call.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// expert_idx in 0..num_experts-1.
  virtual Result<ExpertWeights> routed(uint32_t expert_idx) const = 0;
  /// shared_idx in 0..num_shared_experts-1; the default has none.
  virtual Result<ExpertWeights> shared(uint32_t shared_idx) const;
};

/// Weights that the caller holds in memory.
class ArrayWeights final : public WeightSource {
 public:
  explicit ArrayWeights(std::vector<ExpertWeights> routed, std::vector<ExpertWeights> shared = {})
      : routed_(std::move(routed)), shared_(std::move(shared)) {}
  Result<ExpertWeights> routed(uint32_t expert_idx) const override;
  Result<ExpertWeights> shared(uint32_t shared_idx) const override;

 private:
  std::vector<ExpertWeights> routed_;
  std::vector<ExpertWeights> shared_;
};

// ---------------------------------------------------------------- plan

/// How the stages of a call are run.
enum class Fusion : uint8_t {
  fused,  ///< by workers that do all of them, tile by tile
  gemms,  ///< by launches of dispatch and combine, between them one of gemm1 and gemm2, tile by tile, in calls of few
          ///< rows, two in others
  chain,  ///< by one launch after the other
};
/// "fused", "gemms", "chain".
std::string_view to_string(Fusion fusion);

/// One buffer of the plan.
struct PlanBuffer {
  std::string name;     ///< field name, as in docs/memory.md
  std::string shape;    ///< "[num_pool_rows, hidden] fp8"
  uint64_t offset = 0;  ///< in the rank's workspace
  uint64_t bytes = 0;
};

/// What Layer::create decided, the same on every rank but for `pin`.
struct PlanInfo {
  LayerShape shape;
  Backend backend = Backend::cpu;
  Fusion fusion = Fusion::fused;
  Strategy strategy = Strategy::automatic;  ///< as the tuning says
  /// When a call takes which strategy, in words; empty on the CPU.
  std::string strategy_rule;
  Isa isa = Isa::scalar;  ///< of the CPU's kernels
  uint32_t num_ranks = 0;
  uint32_t max_tokens_per_rank = 0;
  uint32_t threads_per_rank = 0;       ///< workers: threads, on a GPU blocks
  Pin pin = Pin::none;                 ///< never automatic; of this process
  uint32_t num_local_experts_max = 0;  ///< routed + shared, on the rank that has most
  uint32_t block_m = 0;
  uint32_t gemm1_block_n = 0;
  uint32_t gemm2_block_n = 0;
  uint32_t experts_per_wave = 0;
  uint64_t num_pool_rows = 0;
  uint64_t num_pool_blocks = 0;
  uint64_t workspace_bytes = 0;     ///< per rank, one allocation
  uint64_t scratch_bytes = 0;       ///< per rank, one allocation: all workers' tile scratch; on a GPU its copies of
                                    ///< inputs and outputs that the caller holds in host memory
  std::vector<PlanBuffer> buffers;  ///< the workspace, field by field, in address order
};

/// Validates `config` for `num_ranks` ranks and plans it without allocating anything.
Result<PlanInfo> plan(const LayerConfig& config, uint32_t num_ranks);

// ---------------------------------------------------------------- run

/// Stages of the flow, in the order data takes (design: src/flow/README.md).
enum class Stage : uint8_t { stage_in, count, scatter, exchange, pull, gemm1, gemm2, combine, reset };
inline constexpr size_t kNumStages = 9;
std::string_view to_string(Stage stage);

/// Where the time of one call went on one rank. On a GPU, busy_seconds of gemm1 and gemm2 are those launches' time,
/// that of pull is dispatch's and that of combine is combine's with reset, all times num_workers; waits are inside.
/// Calls that run gemm1 and gemm2 in one launch are timed as a whole: all busy_seconds are 0.
struct RankStats {
  std::array<double, kNumStages> busy_seconds{};  ///< summed over the rank's workers
  double wait_seconds = 0;                        ///< summed over the rank's workers: barriers, arrivals, masks
  double wall_seconds = 0;
  double device_seconds = 0;                ///< GPU only: from the first launch's begin to the last one's end
  Strategy strategy = Strategy::automatic;  ///< GPU only: what gemm1 and gemm2 ran as; never automatic there
  uint32_t num_rows_received = 0;           ///< pool rows of routed experts
  uint32_t num_workers = 0;
};

/// One MoE layer: plan, packed weights and workspace. Movable.
class Layer {
 public:
  /// Validates, plans, allocates and packs. Collective: with Group::mpi() every rank must call it with the same config.
  /// Errors: any broken rule of config or weights; configs that differ between ranks (names field and both values).
  static Result<Layer> create(const LayerConfig& config, const WeightSource& weights, const Group& group);

  /// One forward pass. `inputs` and `outputs` have one entry per local rank, in rank order. Collective. Allocates
  /// nothing. On a GPU backend each span may be in host memory, or in the memory of the rank's GPU, which is used in
  /// place where it begins at a multiple of 16 bytes; what the caller's own streams do to it must be done. Errors: any
  /// broken rule of the inputs, before anything runs and the same on every rank; timeout.
  Status run(std::span<const RankInput> inputs, std::span<const RankOutput> outputs);

  const PlanInfo& plan() const;
  /// Routed experts that `rank` owns: [first, first + count).
  uint32_t first_expert(uint32_t rank) const;
  uint32_t num_local_experts(uint32_t rank) const;
  /// Bytes that this layer holds, by what it asked of the allocator: workspaces and scratch of the local ranks.
  uint64_t allocated_workspace_bytes() const;
  uint64_t allocated_scratch_bytes() const;
  /// Bytes of packed weights of the local ranks.
  uint64_t packed_weight_bytes() const;
  /// Stats of the last run, one per local rank.
  std::span<const RankStats> stats() const;
  /// Every workspace field of a local rank (name, shape, offset, bytes, first values), for people who debug.
  std::string dump_workspace(uint32_t local_rank) const;

  Layer(Layer&&) noexcept;
  Layer& operator=(Layer&&) noexcept;
  ~Layer();

 private:
  explicit Layer(std::unique_ptr<internal::LayerState> state);
  std::unique_ptr<internal::LayerState> state_;
};

}  // namespace megamoe
