#include "check/stages/device_machine.hpp"

#include "cuda/sm90/device_ranks.hpp"
#include "cuda/sm90/layer_arguments.hpp"
#include "host/describe.hpp"
#include "host/errors.hpp"

namespace megamoe::stages {
namespace {

using cuda::DeviceMemory;
using flow::Field;

/// The wait that a hanging kernel gets before it gives up.
constexpr std::chrono::milliseconds kTimeout{10'000};
/// Outputs and lists before a call: nothing that could pass for a result.
constexpr int kUnwritten = 0xEE;

/// One rank's buffers besides its workspace.
struct RankBuffers {
  DeviceMemory x;
  DeviceMemory x_scale;
  DeviceMemory ids;
  DeviceMemory weights;
  DeviceMemory results;
  DeviceMemory y;
  DeviceMemory local_expert_rows;
};

class DeviceMachine final : public StageMachine {
 public:
  static Result<std::unique_ptr<StageMachine>> create(const StageCase& stage_case) {
    auto machine = std::make_unique<DeviceMachine>(stage_case);
    MM_RETURN_IF_ERROR(machine->allocate());
    return std::unique_ptr<StageMachine>(std::move(machine));
  }

  explicit DeviceMachine(const StageCase& stage_case) : case_(stage_case) {
    rules_ = rules_of(case_);
    rules_.timeout = kTimeout;
    rules_.start_timeout = kTimeout;
  }

  Status begin_call(const std::vector<RankData>& data) override {
    const uint64_t first = rules_.layout.offset[static_cast<uint32_t>(Field::source_slot)];
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      const cuda::DeviceScope scope(ranks_->device(r).ordinal);
      MM_RETURN_IF_ERROR(cuda::check(
          cudaMemset(ranks_->bases()[r] + first, kUnwritten, rules_.layout.num_bytes - first), "cudaMemset"));
      MM_RETURN_IF_ERROR(
          cuda::check(cudaMemset(buffers_[r].y.data(), kUnwritten, buffers_[r].y.num_bytes()), "cudaMemset"));
      arguments_[r].num_tokens = data[r].num_tokens;
      MM_RETURN_IF_ERROR(case_.row_format == RowFormat::bf16 ? write(buffers_[r].x, data[r].bf16)
                                                             : write(buffers_[r].x, data[r].codes));
      MM_RETURN_IF_ERROR(case_.row_format == RowFormat::fp8_e8m0_scales ? write(buffers_[r].x_scale, data[r].e8m0)
                                                                        : write(buffers_[r].x_scale, data[r].scales));
      MM_RETURN_IF_ERROR(case_.id_format == IdFormat::int64 ? write(buffers_[r].ids, data[r].ids)
                                                            : write(buffers_[r].ids, data[r].ids32));
      MM_RETURN_IF_ERROR(write(buffers_[r].weights, data[r].weights));
    }
    return settle();
  }

  Status write_results(uint32_t rank, const std::vector<uint16_t>& results) override {
    MM_RETURN_IF_ERROR(write(buffers_[rank].results, results));
    return settle();
  }

  Status fill(uint32_t rank, Field field, uint8_t value) override {
    std::byte* first = ranks_->bases()[rank] + rules_.layout.offset[static_cast<uint32_t>(field)];
    MM_RETURN_IF_ERROR(
        cuda::check(cudaMemset(first, value, flow::field_extent(field, case_.dims).num_bytes()), "cudaMemset"));
    return settle();
  }

  Status run(sm90::Kernel kernel, uint32_t num_blocks) override {
    MM_RETURN_IF_ERROR(ranks_->launch(kernel, arguments_, {num_blocks, case_.num_threads}));
    MM_RETURN_IF_ERROR(ranks_->synchronize());
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      host_[r].resize(rules_.layout.num_bytes / sizeof(Page));
      MM_RETURN_IF_ERROR(cuda::check(
          cudaMemcpy(host_[r].data(), ranks_->bases()[r], rules_.layout.num_bytes, cudaMemcpyDefault), "cudaMemcpy"));
      const flow::FaultRecord& fault = *host_workspace(r).get<Field::fault>();
      if (fault.is_set != 0U) return {StatusCode::timeout, internal::fault_words(rules_, fault)};
    }
    return {};
  }

  Result<flow::Workspace> workspace(uint32_t rank) override { return host_workspace(rank); }
  Result<std::vector<uint16_t>> y(uint32_t rank) override {
    return read<uint16_t>(buffers_[rank].y, size_t{arguments_[rank].num_tokens} * case_.dims.hidden);
  }
  Result<std::vector<uint32_t>> local_expert_rows(uint32_t rank) override {
    return read<uint32_t>(buffers_[rank].local_expert_rows, rules_.placement.num_routed(flow::Rank{rank}));
  }

 private:
  struct alignas(flow::kWorkspaceAlign) Page {
    std::byte bytes[flow::kWorkspaceAlign];
  };

  flow::Workspace host_workspace(uint32_t rank) { return {host_[rank].front().bytes, &rules_.layout}; }

  Status allocate() {
    const flow::Dims& dims = case_.dims;
    auto ranks = sm90::DeviceRanks::create(dims.num_ranks, rules_.layout);
    if (!ranks) return ranks.status();
    ranks_ = *std::move(ranks);
    const size_t num_values = size_t{dims.max_tokens} * dims.hidden;
    const size_t num_choices = size_t{dims.max_tokens} * dims.top_k;
    buffers_.resize(dims.num_ranks);
    host_.resize(dims.num_ranks);
    for (uint32_t r = 0; r < dims.num_ranks; ++r) {
      RankBuffers& buffers = buffers_[r];
      const std::pair<DeviceMemory*, size_t> sizes[] = {
          {&buffers.x, num_values * sizeof(uint16_t)},
          {&buffers.x_scale, size_t{dims.max_tokens} * dims.hidden_groups() * sizeof(float)},
          {&buffers.ids, num_choices * sizeof(int64_t)},
          {&buffers.weights, num_choices * sizeof(float)},
          {&buffers.results, dims.num_pool_rows() * dims.hidden * sizeof(uint16_t)},
          {&buffers.y, num_values * sizeof(uint16_t)},
          {&buffers.local_expert_rows, dims.num_local_max() * sizeof(uint32_t)}};
      for (const auto& [memory, num_bytes] : sizes) {
        auto allocated = DeviceMemory::allocate(ranks_->device(r).ordinal, num_bytes);
        if (!allocated) return allocated.status();
        *memory = *std::move(allocated);
      }
      arguments_.push_back(arguments_of(r));
    }
    return {};
  }

  sm90::Arguments arguments_of(uint32_t rank) const {
    const RankBuffers& buffers = buffers_[rank];
    sm90::Arguments arguments = sm90::layer_arguments(rules_, ranks_->bases(), rank);
    arguments.row_format = case_.row_format;
    arguments.id_format = case_.id_format;
    arguments.x = buffers.x.data();
    arguments.x_scale = buffers.x_scale.data();
    arguments.topk_ids = buffers.ids.data();
    arguments.topk_weights = buffers.weights.as<const float>();
    arguments.results = buffers.results.as<const uint16_t>();
    arguments.y = buffers.y.as<uint16_t>();
    arguments.local_expert_rows = buffers.local_expert_rows.as<uint32_t>();
    return arguments;
  }

  template <class T>
  Status write(const DeviceMemory& to, const std::vector<T>& values) {
    return cuda::check(cudaMemcpy(to.data(), values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
                       "cudaMemcpy");
  }

  template <class T>
  Result<std::vector<T>> read(const DeviceMemory& from, size_t count) {
    std::vector<T> values(count);
    MM_RETURN_IF_ERROR(
        cuda::check(cudaMemcpy(values.data(), from.data(), count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy"));
    return values;
  }

  /// The kernels' streams do not wait for the copies and fills of the default stream.
  Status settle() {
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      const cuda::DeviceScope scope(ranks_->device(r).ordinal);
      MM_RETURN_IF_ERROR(cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
    }
    return {};
  }

  StageCase case_;
  LayerRules rules_;
  std::optional<sm90::DeviceRanks> ranks_;
  std::vector<RankBuffers> buffers_;
  std::vector<sm90::Arguments> arguments_;
  std::vector<std::vector<Page>> host_;
};

}  // namespace

Result<std::unique_ptr<StageMachine>> make_device_machine(const StageCase& stage_case) {
  return DeviceMachine::create(stage_case);
}

}  // namespace megamoe::stages
