#pragma once

// One worker's private memory, carved from one allocation per rank so that a call allocates nothing.

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.hpp"
#include "flow/dims.hpp"

namespace megamoe::cpu {

/// Words from one streamed row to the next: a cache line more than the row, since rows a multiple of 4 KiB apart would
/// fall into the same few sets of the first-level cache.
constexpr uint32_t streamed_row_stride(uint32_t num_k) { return num_k + 16; }

struct Scratch {
  uint32_t* expert_counts = nullptr;    // [num_all_experts]: count's tallies, then scatter's next places
  uint32_t* local_rows = nullptr;       // [num_local_max]: rows per local expert
  uint32_t* first_block = nullptr;      // [num_local_max + 1]: PoolMap's memory
  uint32_t* a = nullptr;                // [block_m, kGroupK] or [kMaxStreamedRows, K]: a tile's rows, prepared
  uint32_t* w = nullptr;                // [kExpandedWords]: multiply's expanded weights
  float* totals = nullptr;              // [block_m, tile columns]: FP32 accumulators of the tile
  const uint16_t** partials = nullptr;  // [num_choices]: combine's valid partials
  float* weights = nullptr;             // [num_choices]: their router weights

  /// Columns of totals: a gemm1 tile has gate and up side by side, both whole panels.
  static uint32_t total_cols(const flow::Dims& dims) {
    const auto panels = [](uint32_t cols) { return flow::ceil_div(cols, kPanelCols) * kPanelCols; };
    return flow::max_of(2U * panels(dims.gemm1_block_n), panels(dims.gemm2_block_n));
  }

  /// Lays one worker's scratch out from `base`; returns its bytes. With a null base, only the bytes count.
  static uint64_t carve(const flow::Dims& dims, std::byte* base, Scratch& scratch) {
    uint64_t end = 0;
    const auto take = [&](auto*& pointer, uint64_t count) {
      using Element = std::remove_reference_t<decltype(*pointer)>;
      pointer = base == nullptr ? nullptr : reinterpret_cast<Element*>(base + end);
      end = flow::align_up(end + count * sizeof(Element), 64);
    };
    take(scratch.expert_counts, dims.num_all_experts());
    take(scratch.local_rows, dims.num_local_max());
    take(scratch.first_block, dims.num_local_max() + 1U);
    const uint64_t streamed =
        uint64_t{kMaxStreamedRows} * streamed_row_stride(flow::max_of(dims.hidden, dims.intermediate));
    const uint64_t grouped = uint64_t{dims.block_m} * kGroupK;
    take(scratch.a, streamed > grouped ? streamed : grouped);
    take(scratch.w, kExpandedWords);
    take(scratch.totals, uint64_t{dims.block_m} * total_cols(dims));
    take(scratch.partials, dims.num_choices());
    take(scratch.weights, dims.num_choices());
    return flow::align_up(end, 4096);
  }
  static uint64_t num_bytes(const flow::Dims& dims) {
    Scratch unused;
    return carve(dims, nullptr, unused);
  }
};

}  // namespace megamoe::cpu
