#pragma once

// The kernels under test on the emulated machine: every rank its own blocks and workspace.

#include "check/stages/stage_machine.hpp"
#include "cuda/sm90/layer_arguments.hpp"
#include "cuda/sm90/plain_kernels.hpp"
#include "emulated_ranks.hpp"

namespace megamoe::stages {

using flow::Field;
using sm90::Arguments;
using sync::testing::Gpus;

class EmulatedFlow final : public StageMachine {
 public:
  EmulatedFlow(const StageCase& stage_case, emu::Options options, Gpus gpus = Gpus::one_per_rank)
      : case_(stage_case), ranks_(stage_case.dims, options, (size_t{64} << 10) + result_bytes(stage_case.dims), gpus) {
    LayerRules rules = rules_of(case_);
    rules.timeout = std::chrono::minutes(1);
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      Arguments arguments = sm90::layer_arguments(rules, ranks_.bases(), r);
      arguments.row_format = case_.row_format;
      arguments.id_format = case_.id_format;
      allocate_buffers(arguments);
      arguments_.push_back(arguments);
    }
  }

  Status begin_call(const std::vector<RankData>& data) override {
    const flow::WorkspaceLayout& layout = ranks_.layout();
    const uint64_t first = layout.offset[static_cast<uint32_t>(Field::source_slot)];
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      machine().forget(ranks_.bases()[r] + first, layout.num_bytes - first);
      Arguments& arguments = arguments_[r];
      arguments.num_tokens = data[r].num_tokens;
      if (case_.row_format == RowFormat::bf16) {
        write(arguments.x, data[r].bf16);
      } else {
        write(arguments.x, data[r].codes);
      }
      if (case_.row_format == RowFormat::fp8_fp32_scales) write(arguments.x_scale, data[r].scales);
      if (case_.row_format == RowFormat::fp8_e8m0_scales) write(arguments.x_scale, data[r].e8m0);
      if (case_.id_format == IdFormat::int64) {
        write(arguments.topk_ids, data[r].ids);
      } else {
        write(arguments.topk_ids, data[r].ids32);
      }
      write(arguments.topk_weights, data[r].weights);
      machine().forget(arguments.y, size_t{case_.dims.max_tokens} * case_.dims.hidden * sizeof(uint16_t));
    }
    return {};
  }

  Status write_results(uint32_t rank, const std::vector<uint16_t>& results) override {
    write(arguments_[rank].results, results);
    return {};
  }

  Status fill(uint32_t rank, Field field, uint8_t value) override {
    const uint64_t num_bytes = flow::field_extent(field, case_.dims).num_bytes();
    machine().fill(ranks_.bases()[rank] + ranks_.layout().offset[static_cast<uint32_t>(field)], value, num_bytes);
    return {};
  }

  Status run(sm90::Kernel kernel, uint32_t num_blocks) override {
    const emu::Report report = run_body(kernel, num_blocks);
    return report.clean() ? Status() : Status(StatusCode::internal, report.to_string());
  }

  Result<flow::Workspace> workspace(uint32_t rank) override { return ranks_.workspace(rank); }
  Result<std::vector<uint16_t>> y(uint32_t rank) override {
    const Arguments& arguments = arguments_[rank];
    return std::vector<uint16_t>(arguments.y, arguments.y + size_t{arguments.num_tokens} * case_.dims.hidden);
  }
  Result<std::vector<uint32_t>> local_expert_rows(uint32_t rank) override {
    const uint32_t* rows = arguments_[rank].local_expert_rows;
    return std::vector<uint32_t>(rows, rows + flow::Placement::of(case_.dims).num_routed(flow::Rank{rank}));
  }

  /// Runs `kernel(arguments, worker_idx, num_workers)` on all ranks, `num_blocks` each: a launch on every GPU.
  template <class Kernel>
  emu::Report run(uint32_t num_blocks, Kernel kernel) {
    const uint32_t shared_bytes = sm90::SharedPlan::num_bytes(case_.dims);
    if (ranks_.gpus() == Gpus::one_for_all) {
      ranks_.launch(0, case_.dims.num_ranks * num_blocks, case_.num_threads, shared_bytes, [this, kernel, num_blocks] {
        const sm90::VirtualRank rank = sm90::virtual_rank(num_blocks);
        kernel(arguments_[rank.idx], rank.worker_idx, num_blocks);
      });
      return machine().run();
    }
    for (uint32_t r = 0; r < case_.dims.num_ranks; ++r) {
      ranks_.launch(r, num_blocks, case_.num_threads, shared_bytes,
                    [this, r, kernel, num_blocks] { kernel(arguments_[r], simt::block_idx(), num_blocks); });
    }
    return machine().run();
  }

 private:
  emu::Report run_body(sm90::Kernel kernel, uint32_t num_blocks) {
    switch (kernel) {
      case sm90::Kernel::dispatch: return run(num_blocks, sm90::dispatch_kernel);
      case sm90::Kernel::combine: return run(num_blocks, sm90::combine_kernel);
      case sm90::Kernel::meet: return run(num_blocks, sm90::meet_kernel);
      case sm90::Kernel::gemm1:
      case sm90::Kernel::gemm2:
      case sm90::Kernel::gemms: break;  // no stage case runs them
    }
    return {};
  }

  emu::Machine& machine() { return ranks_.machine(); }

  static size_t result_bytes(const flow::Dims& dims) { return dims.num_pool_rows() * dims.hidden * sizeof(uint16_t); }

  void allocate_buffers(Arguments& arguments) {
    const uint32_t gpu = ranks_.gpu_of(num(arguments.rank));
    const flow::Dims& dims = case_.dims;
    const auto allocate = [&](size_t num_bytes) { return machine().allocate_bytes(gpu, num_bytes); };
    const size_t num_values = size_t{dims.max_tokens} * dims.hidden;
    const size_t num_choices = size_t{dims.max_tokens} * dims.top_k;
    arguments.x = allocate(num_values * sizeof(uint16_t));
    arguments.x_scale = allocate(size_t{dims.max_tokens} * dims.hidden_groups() * sizeof(float));
    arguments.topk_ids = allocate(num_choices * sizeof(int64_t));
    arguments.topk_weights = reinterpret_cast<const float*>(allocate(num_choices * sizeof(float)));
    arguments.results = reinterpret_cast<const uint16_t*>(allocate(result_bytes(dims)));
    arguments.y = reinterpret_cast<uint16_t*>(allocate(num_values * sizeof(uint16_t)));
    arguments.local_expert_rows = machine().allocate<uint32_t>(gpu, dims.num_local_max());
  }

  template <class T>
  void write(const void* to, const std::vector<T>& values) {
    if (!values.empty()) machine().write(const_cast<void*>(to), values.data(), values.size() * sizeof(T));
  }

  StageCase case_;
  sync::testing::EmulatedRanks ranks_;
  std::vector<Arguments> arguments_;
};

}  // namespace megamoe::stages
