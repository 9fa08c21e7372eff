#pragma once

// Index spaces are types: a pool row cannot be passed where a token is meant.

#include <cstdint>

#include "formats/platform.hpp"

namespace megamoe::flow {

enum class Rank : uint32_t {};         ///< member of the expert-parallel group
enum class Token : uint32_t {};        ///< input row of a rank
enum class Choice : uint32_t {};       ///< k of a token: 0..K-1 routed, K.. shared
enum class Slot : uint32_t {};         ///< token * num_choices + choice
enum class Expert : uint32_t {};       ///< global id: routed 0..E-1, then shared E..E+S-1
enum class LocalExpert : uint32_t {};  ///< on its owner: shared first, then that rank's routed ones
enum class PoolRow : uint32_t {};      ///< row of the owner's pool
enum class PoolBlock : uint32_t {};    ///< block_m consecutive pool rows of one expert

/// The number behind an index.
template <class Index>
MM_HOST_DEVICE constexpr uint32_t num(Index index) {
  return static_cast<uint32_t>(index);
}

MM_HOST_DEVICE constexpr uint32_t ceil_div(uint32_t value, uint32_t divisor) {
  return (value + divisor - 1U) / divisor;
}
MM_HOST_DEVICE constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1U) / alignment * alignment;
}
MM_HOST_DEVICE constexpr uint32_t min_of(uint32_t a, uint32_t b) { return a < b ? a : b; }
MM_HOST_DEVICE constexpr uint32_t max_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

/// A run of indices [begin, end).
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
  MM_HOST_DEVICE constexpr uint32_t size() const { return end - begin; }
};

/// Worker `worker`'s share of `count` items: contiguous, sizes differ by at most one.
MM_HOST_DEVICE constexpr Range share(uint32_t count, uint32_t worker, uint32_t num_workers) {
  const uint64_t begin = uint64_t{count} * worker / num_workers;
  const uint64_t end = uint64_t{count} * (worker + 1U) / num_workers;
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace megamoe::flow
