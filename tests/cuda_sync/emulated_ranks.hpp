#pragma once

// Emulated ranks with a workspace each, as a host makes them before the first call: counters and flags zero, lists and
// rows unwritten.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "../emu/seeds.hpp"
#include "cuda/sync/wait.hpp"
#include "emu/machine.hpp"
#include "flow/workspace.hpp"

namespace megamoe::sync::testing {

using emu::testing::seeds;

/// Three seeds of four look for races, every other one delays writes.
inline emu::Options options_of(uint64_t seed) {
  return {.seed = seed,
          .races = seed % 4 != 0 ? emu::Races::find : emu::Races::ignore,
          .stores = seed % 2 == 0 ? emu::Stores::delayed : emu::Stores::immediate};
}

/// Where ranks live: each on a GPU of its own, or all as virtual ranks on one.
enum class Gpus : uint8_t { one_per_rank, one_for_all };

class EmulatedRanks {
 public:
  /// `extra_bytes`: of each rank, besides its workspace.
  EmulatedRanks(const flow::Dims& dims, emu::Options options, size_t extra_bytes = 1 << 16,
                Gpus gpus = Gpus::one_per_rank)
      : dims_(dims), layout_(flow::WorkspaceLayout::of(dims)), gpus_(gpus), machine_(create(options, extra_bytes)) {
    for (uint32_t r = 0; r < dims.num_ranks; ++r) {
      bases_.push_back(machine_.allocate_bytes(gpu_of(r), layout_.num_bytes));
      const uint64_t flag_bytes = layout_.offset[static_cast<uint32_t>(flow::Field::source_slot)];
      machine_.fill(bases_[r], 0, flag_bytes);
    }
  }

  emu::Machine& machine() { return machine_; }
  Gpus gpus() const { return gpus_; }
  /// The emulated GPU of a rank: what the machine calls a rank.
  uint32_t gpu_of(uint32_t rank) const { return gpus_ == Gpus::one_per_rank ? rank : 0; }
  const flow::WorkspaceLayout& layout() const { return layout_; }
  const std::vector<std::byte*>& bases() const { return bases_; }
  flow::Workspace workspace(uint32_t rank) const { return {bases_[rank], &layout_}; }

  /// Of the running block, as one of `num_workers` of its rank.
  Waiter waiter(uint32_t rank, uint32_t num_workers) const {
    return {.peers = {bases_.data(), &layout_},
            .rank = flow::Rank{rank},
            .num_ranks = dims_.num_ranks,
            .worker_idx = simt::block_idx(),
            .num_workers = num_workers,
            .timeout_ns = 10'000'000'000};
  }

  /// On the GPU of `rank`.
  void launch(uint32_t rank, uint32_t num_blocks, uint32_t num_threads, uint32_t shared_bytes,
              std::function<void()> kernel) {
    const Status status = machine_.launch({.rank = gpu_of(rank),
                                           .num_blocks = num_blocks,
                                           .num_threads = num_threads,
                                           .shared_bytes = shared_bytes,
                                           .residency = emu::Residency::cooperative},
                                          std::move(kernel));
    EXPECT_TRUE(status.ok()) << status.to_string();
  }

 private:
  emu::Machine create(emu::Options options, size_t extra_bytes) const {
    options.num_ranks = gpus_ == Gpus::one_per_rank ? dims_.num_ranks : 1;
    options.memory_bytes = dims_.num_ranks * (layout_.num_bytes + extra_bytes);
    Result<emu::Machine> machine = emu::Machine::create(options);
    EXPECT_TRUE(machine.ok()) << machine.status().to_string();
    return std::move(*machine);
  }

  flow::Dims dims_;
  flow::WorkspaceLayout layout_;
  Gpus gpus_;
  emu::Machine machine_;
  std::vector<std::byte*> bases_;
};

/// A layer that is all flags and hardly any rows.
inline flow::Dims small_dims(uint32_t num_ranks) {
  return {.num_ranks = num_ranks,
          .hidden = 16,
          .intermediate = 128,
          .num_experts = num_ranks,
          .top_k = 1,
          .max_tokens = 1,
          .block_m = 8,
          .gemm1_block_n = 128,
          .gemm2_block_n = 16,
          .experts_per_wave = 1};
}

}  // namespace megamoe::sync::testing
