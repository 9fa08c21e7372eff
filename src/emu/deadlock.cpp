#include "emu/deadlock.hpp"

#include <fmt/format.h>

#include <vector>

#include "emu/mbarrier.hpp"
#include "emu/places.hpp"
#include "emu/polls.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

/// Lanes of one warp that wait for the same.
struct Waiters {
  const Lane* first;
  uint32_t lanes;
};

constexpr size_t kMaxWaiters = 24;

bool wait_alike(const Lane& a, const Lane& b) {
  return a.warp == b.warp && a.wait.kind == b.wait.kind && a.wait.where.line() == b.wait.where.line() &&
         a.wait.object == b.wait.object && a.wait.wanted == b.wait.wanted;
}

std::string describe_mbarrier(const Wait& wait) {
  const Block* block = world().owner_of(wait.object);
  const auto found = block->mbarriers.find(wait.object);
  if (found == block->mbarriers.end()) return fmt::format("mbarrier {}, which is gone", place_of(wait.object));
  const MBarrier& barrier = *found->second;
  return fmt::format("mbarrier {}, parity {}: its phase {} lacks {} of {} arrivals and {} bytes", place_of(wait.object),
                     wait.wanted, barrier.phase, barrier.num_pending, barrier.num_expected, barrier.pending_bytes);
}

std::string describe_collective(const Lane& lane) {
  for (const WarpCollective& group : lane.warp->collectives) {
    if ((group.arrived >> lane.lane_idx & 1U) == 0) continue;
    return fmt::format("{} with mask {:#x}: lanes {:#x} have not arrived", static_cast<const char*>(lane.wait.object),
                       group.mask, group.mask & ~group.arrived);
  }
  return "a collective";
}

std::string describe(const Lane& lane) {
  const Wait& wait = lane.wait;
  switch (wait.kind) {
    case WaitKind::nothing: return "its turn";
    case WaitKind::warp_collective: return describe_collective(lane);
    case WaitKind::warpgroup_collective:
      return fmt::format("the rest of its warpgroup at {}", static_cast<const char*>(wait.object));
    case WaitKind::named_barrier: {
      const auto& barrier = *static_cast<const NamedBarrier*>(wait.object);
      return fmt::format("named barrier {}: {} of {} threads have arrived", wait.wanted, barrier.num_arrived,
                         barrier.num_expected);
    }
    case WaitKind::cluster_barrier: {
      const auto& cluster = *static_cast<const Cluster*>(wait.object);
      return fmt::format("the cluster barrier: {} of {} threads have arrived", cluster.num_arrived,
                         cluster.num_lanes - cluster.num_exited);
    }
    case WaitKind::mbarrier: return describe_mbarrier(wait);
    case WaitKind::memory:
      return fmt::format("{} to change from {:#x}", place_of(wait.object),
                         peek(wait.object, static_cast<uint32_t>(wait.wanted)));
    case WaitKind::sleep: return "the end of nanosleep";
    case WaitKind::bulk_group: return "its bulk copies";
    case WaitKind::registers:
      return fmt::format("{} registers of the block's share, of which {} are free", wait.wanted,
                         static_cast<const Block*>(wait.object)->num_free_registers);
    case WaitKind::earlier_grid: return fmt::format("launch {} of its rank to end", wait.wanted);
  }
  return "something";
}

void collect(const Block& block, std::vector<Waiters>& waiters) {
  for (uint32_t i = 0; i < block.num_lanes; ++i) {
    const Lane& lane = block.lanes[i];
    if (lane.state != LaneState::blocked && lane.state != LaneState::parked) continue;
    const uint32_t bit = 1U << lane.lane_idx;
    bool is_new = true;
    for (Waiters& group : waiters) {
      if (!wait_alike(*group.first, lane)) continue;
      group.lanes |= bit;
      is_new = false;
      break;
    }
    if (is_new) waiters.push_back({&lane, bit});
  }
}

}  // namespace

void note_deadlock(World& machine) {
  std::vector<Waiters> waiters;
  for (const std::unique_ptr<Grid>& grid : machine.grids) {
    for (const std::unique_ptr<Cluster>& cluster : grid->clusters) {
      for (const std::unique_ptr<Block>& block : cluster->blocks) {
        if (waiters.size() <= kMaxWaiters) collect(*block, waiters);
      }
    }
  }
  if (waiters.empty()) return;
  std::string text = "nobody can run";
  for (size_t i = 0; i < waiters.size() && i < kMaxWaiters; ++i) {
    const Lane& lane = *waiters[i].first;
    text += fmt::format("\n  rank {} block {} warp {} lanes {:#x} at {}: {}", lane.block->rank, lane.block->block_idx,
                        lane.warp->warp_idx, waiters[i].lanes, short_location(lane.wait.where), describe(lane));
  }
  if (waiters.size() > kMaxWaiters) text += "\n  and others";
  for (const std::unique_ptr<Grid>& grid : machine.grids) {
    const uint32_t num_absent = grid->launch.num_blocks - grid->num_placed();
    if (num_absent == 0) continue;
    text += fmt::format("\n  {} blocks of launch {} on rank {} have found no SM yet", num_absent, grid->index,
                        grid->launch.rank);
  }
  // A collective waits because of others; name somebody who waits for more than that.
  const Lane* first = waiters.front().first;
  for (const Waiters& group : waiters) {
    if (group.first->wait.kind == WaitKind::warp_collective) continue;
    first = group.first;
    break;
  }
  machine.note(FindingKind::deadlock, first, first->wait.where, text);
}

}  // namespace megamoe::emu
