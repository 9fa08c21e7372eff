#pragma once

// The reference: the CPU backend's own stages, one worker a rank, one after the other.

#include <cstring>
#include <memory>

#include "check/stages/stage_case.hpp"
#include "cpu/worker.hpp"

namespace megamoe::stages {

class CpuStages {
 public:
  explicit CpuStages(const StageCase& layer) : layer_(layer) {
    static_cast<LayerRules&>(rules_) = rules_of(layer);
    rules_.kernels = *cpu::find_kernels(Isa::scalar);
    for (uint32_t r = 0; r < layer.dims.num_ranks; ++r) {
      // In units of a page's alignment, zero as the host makes them.
      memory_.push_back(std::make_unique<Page[]>(rules_.layout.num_bytes / sizeof(Page)));
      bases_.push_back(memory_[r][0].bytes);
    }
    for (uint32_t r = 0; r < layer.dims.num_ranks; ++r) {
      scratch_memory_.push_back(std::make_unique<Page[]>(cpu::Scratch::num_bytes(layer.dims) / sizeof(Page)));
      cpu::LocalRank rank;
      rank.rank = flow::Rank{r};
      rank.peers = {bases_.data(), &rules_.layout};
      rank.own = rank.peers.at(rank.rank);
      rank.scratch.resize(1);
      cpu::Scratch::carve(layer.dims, scratch_memory_[r][0].bytes, rank.scratch[0]);
      ranks_.push_back(std::move(rank));
    }
  }

  /// stage_in to pull, on all ranks.
  void dispatch(const std::vector<RankData>& data) {
    begin_call(data);
    for (cpu::Worker& worker : workers_) {
      cpu::stage_in(worker);
      cpu::count(worker);
      cpu::scatter(worker);
    }
    for (cpu::Worker& worker : workers_) cpu::pull(worker);
  }

  /// combine and reset, on all ranks.
  void combine() {
    for (cpu::Worker& worker : workers_) cpu::combine(worker);
    for (cpu::Worker& worker : workers_) cpu::reset(worker);
  }

  flow::Workspace workspace(uint32_t rank) const { return ranks_[rank].own; }
  const std::vector<uint16_t>& y(uint32_t rank) const { return y_[rank]; }
  const std::vector<uint32_t>& local_expert_rows(uint32_t rank) const { return local_rows_[rank]; }
  /// The pool's map of the running call. Between dispatch and combine.
  flow::PoolMap pool_map(uint32_t rank) const { return workers_[rank].pool_map(); }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096] = {};
  };

  void begin_call(const std::vector<RankData>& data) {
    const size_t num_ranks = ranks_.size();
    inputs_.assign(num_ranks, {});
    outputs_.assign(num_ranks, {});
    calls_.assign(num_ranks, {});
    y_.assign(num_ranks, {});
    local_rows_.assign(num_ranks, {});
    workers_.clear();
    for (uint32_t r = 0; r < num_ranks; ++r) {
      y_[r].resize(size_t{data[r].num_tokens} * layer_.dims.hidden);
      local_rows_[r].resize(rules_.placement.num_routed(flow::Rank{r}));
      inputs_[r] = input_of(data[r]);
      outputs_[r].y = {reinterpret_cast<Bf16*>(y_[r].data()), y_[r].size()};
      outputs_[r].local_expert_rows = local_rows_[r];
      calls_[r].input = &inputs_[r];
      calls_[r].output = &outputs_[r];
      workers_.push_back({.rules = rules_, .local = ranks_[r], .call = calls_[r], .scratch = ranks_[r].scratch[0]});
    }
  }

  RankInput input_of(const RankData& data) const {
    RankInput input;
    input.num_tokens = data.num_tokens;
    if (layer_.row_format == RowFormat::bf16) {
      input.x = std::span(reinterpret_cast<const Bf16*>(data.bf16.data()), data.bf16.size());
    } else {
      Fp8Activations x;
      x.values = {reinterpret_cast<const Fp8E4m3*>(data.codes.data()), data.codes.size()};
      if (layer_.row_format == RowFormat::fp8_fp32_scales) {
        x.scales = std::span<const float>(data.scales);
      } else {
        x.scales = std::span(reinterpret_cast<const E8m0*>(data.e8m0.data()), data.e8m0.size());
      }
      input.x = x;
    }
    if (layer_.id_format == IdFormat::int32) {
      input.topk_ids = std::span<const int32_t>(data.ids32);
    } else {
      input.topk_ids = std::span<const int64_t>(data.ids);
    }
    input.topk_weights = data.weights;
    return input;
  }

  StageCase layer_;
  cpu::LayerRules rules_;
  std::vector<std::unique_ptr<Page[]>> memory_;
  std::vector<std::unique_ptr<Page[]>> scratch_memory_;
  std::vector<std::byte*> bases_;
  std::vector<cpu::LocalRank> ranks_;
  std::vector<RankInput> inputs_;
  std::vector<RankOutput> outputs_;
  std::vector<cpu::RankCall> calls_;
  std::vector<std::vector<uint16_t>> y_;
  std::vector<std::vector<uint32_t>> local_rows_;
  std::vector<cpu::Worker> workers_;
};

}  // namespace megamoe::stages
