#pragma once

// The kernels under test: every rank its own blocks and workspace, all on one emulated machine.

#include <algorithm>
#include <functional>

#include "cuda/sm90/plain_kernels.hpp"
#include "emulated_ranks.hpp"
#include "flow_case.hpp"

namespace megamoe::sm90::testing {

class EmulatedFlow {
 public:
  EmulatedFlow(const FlowCase& layer, emu::Options options)
      : layer_(layer), ranks_(layer.dims, options, size_t{64} << 10) {
    for (uint32_t r = 0; r < layer.dims.num_ranks; ++r) {
      Arguments arguments;
      arguments.dims = layer.dims;
      arguments.layout = ranks_.layout();
      std::copy(ranks_.bases().begin(), ranks_.bases().end(), arguments.bases);
      arguments.rank = flow::Rank{r};
      arguments.scale_rule = layer.scale_rule;
      arguments.weight_rule = layer.weight_rule;
      arguments.row_format = layer.row_format;
      arguments.id_format = layer.id_format;
      arguments.timeout_ns = 60'000'000'000;
      allocate_inputs(arguments);
      arguments_.push_back(arguments);
    }
  }

  emu::Machine& machine() { return ranks_.machine(); }
  flow::Workspace workspace(uint32_t rank) const { return ranks_.workspace(rank); }
  const Arguments& arguments(uint32_t rank) const { return arguments_[rank]; }

  /// Writes a call's inputs. What an earlier call left in lists, rows and outputs counts as never written.
  void begin_call(const std::vector<RankData>& data) {
    const flow::WorkspaceLayout& layout = ranks_.layout();
    const uint64_t first = layout.offset[static_cast<uint32_t>(flow::Field::source_slot)];
    for (uint32_t r = 0; r < layer_.dims.num_ranks; ++r) {
      machine().forget(ranks_.bases()[r] + first, layout.num_bytes - first);
      Arguments& arguments = arguments_[r];
      arguments.num_tokens = data[r].num_tokens;
      if (layer_.row_format == RowFormat::bf16) {
        write(arguments.x, data[r].bf16);
      } else {
        write(arguments.x, data[r].codes);
      }
      if (layer_.row_format == RowFormat::fp8_fp32_scales) write(arguments.x_scale, data[r].scales);
      if (layer_.row_format == RowFormat::fp8_e8m0_scales) write(arguments.x_scale, data[r].e8m0);
      if (layer_.id_format == IdFormat::int64) {
        write(arguments.topk_ids, data[r].ids);
      } else {
        write(arguments.topk_ids, data[r].ids32);
      }
      write(arguments.topk_weights, data[r].weights);
      machine().forget(arguments.y, size_t{layer_.dims.max_tokens} * layer_.dims.hidden * sizeof(uint16_t));
    }
  }

  /// Runs `kernel(arguments, worker_idx, num_workers)` on all ranks, `num_blocks` each.
  template <class Kernel>
  emu::Report run(uint32_t num_blocks, Kernel kernel) {
    for (uint32_t r = 0; r < layer_.dims.num_ranks; ++r) {
      ranks_.launch(r, num_blocks, layer_.num_threads, SharedPlan::num_bytes(layer_.dims),
                    [this, r, kernel, num_blocks] { kernel(arguments_[r], simt::block_idx(), num_blocks); });
    }
    return machine().run();
  }

 private:
  void allocate_inputs(Arguments& arguments) {
    const uint32_t rank = num(arguments.rank);
    const flow::Dims& dims = layer_.dims;
    const auto allocate = [&](size_t num_bytes) { return machine().allocate_bytes(rank, num_bytes); };
    const size_t num_values = size_t{dims.max_tokens} * dims.hidden;
    const size_t num_choices = size_t{dims.max_tokens} * dims.top_k;
    arguments.x = allocate(num_values * sizeof(uint16_t));
    arguments.x_scale = allocate(size_t{dims.max_tokens} * dims.hidden_groups() * sizeof(float));
    arguments.topk_ids = allocate(num_choices * sizeof(int64_t));
    arguments.topk_weights = reinterpret_cast<const float*>(allocate(num_choices * sizeof(float)));
    arguments.y = reinterpret_cast<uint16_t*>(allocate(num_values * sizeof(uint16_t)));
    arguments.local_expert_rows = machine().allocate<uint32_t>(rank, dims.num_local_max());
  }

  template <class T>
  void write(const void* to, const std::vector<T>& values) {
    if (!values.empty()) machine().write(const_cast<void*>(to), values.data(), values.size() * sizeof(T));
  }

  FlowCase layer_;
  sync::testing::EmulatedRanks ranks_;
  std::vector<Arguments> arguments_;
};

}  // namespace megamoe::sm90::testing
