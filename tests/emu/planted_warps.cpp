// Warp and warpgroup collectives whose lanes do not agree.

#include "cuda/simt/block.hpp"
#include "cuda/simt/index.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "planted_faults.hpp"

namespace megamoe::emu::testing {

namespace {

using simt::kAllLanes;

void full_mask_in_a_branch(const Buffers&, uint32_t, Version version) {
  if (simt::lane_idx() >= 16) return;
  (void)simt::ballot(version == Version::planted ? kAllLanes : 0xFFFFU, true);
}

void caller_not_in_mask(const Buffers&, uint32_t, Version version) {
  const uint32_t mask = version == Version::planted ? 0xFFFFU : kAllLanes;
  (void)simt::shfl_xor(mask, simt::lane_idx(), 1);
}

void different_operations(const Buffers&, uint32_t, Version version) {
  if (version == Version::planted && simt::lane_idx() < 8) {
    (void)simt::any(kAllLanes, true);
  } else {
    (void)simt::ballot(kAllLanes, true);
  }
}

void different_masks(const Buffers&, uint32_t, Version version) {
  const bool low = simt::lane_idx() < 16;
  const uint32_t high_mask = version == Version::planted ? kAllLanes : 0xFFFF0000U;
  (void)simt::reduce_add(low ? 0xFFFFU : high_mask, 1U);
}

void shuffle_from_a_lane_outside(const Buffers&, uint32_t, Version version) {
  if (simt::lane_idx() >= 16) return;
  (void)simt::shfl(0xFFFFU, simt::lane_idx(), version == Version::planted ? 20 : 10);
}

/// The bug that a converged warp hides: one lane has left the loop, the others still vote.
void lane_leaves_a_voting_loop(const Buffers&, uint32_t, Version version) {
  for (uint32_t i = 0; i < 4; ++i) {
    if (version == Version::planted && simt::lane_idx() == i) break;
    (void)simt::all(kAllLanes, i == 3);
  }
}

void half_a_warpgroup_gives_registers_back(const Buffers&, uint32_t, Version version) {
  if (version == Version::planted && simt::warp_idx() >= 2) {
    simt::shrink_registers<48>();
  } else {
    simt::shrink_registers<40>();
  }
}

}  // namespace

std::vector<Fault> warp_faults() {
  const Launch one_warp{.num_threads = 32};
  const Launch one_warpgroup{.num_threads = 128, .registers_per_thread = 128};
  constexpr FindingKind kDivergent = FindingKind::divergent_collective;
  return {
      {"full_mask_in_a_branch", kDivergent, "simt::ballot(", Shows::always, full_mask_in_a_branch, one_warp},
      {"caller_not_in_mask", kDivergent, "shfl_xor(mask", Shows::always, caller_not_in_mask, one_warp},
      {"different_operations", kDivergent, "(kAllLanes, true)", Shows::always, different_operations, one_warp},
      {"different_masks", kDivergent, "reduce_add(low", Shows::always, different_masks, one_warp},
      {"shuffle_from_a_lane_outside", kDivergent, "simt::shfl(0xFFFFU", Shows::always, shuffle_from_a_lane_outside,
       one_warp},
      {"lane_leaves_a_voting_loop", kDivergent, "simt::all(kAllLanes", Shows::always, lane_leaves_a_voting_loop,
       one_warp},
      {"half_a_warpgroup_gives_registers_back", kDivergent, "shrink_registers<", Shows::always,
       half_a_warpgroup_gives_registers_back, one_warpgroup},
  };
}

}  // namespace megamoe::emu::testing
