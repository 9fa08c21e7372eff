#include "emu/warp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emu/memory.hpp"
#include "emu/step.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

constexpr const char* kNames[] = {"syncwarp",   "elect",      "shfl",       "shfl_up",    "shfl_down",
                                  "shfl_xor",   "ballot",     "any",        "all",        "match_any",
                                  "reduce_add", "reduce_add", "reduce_min", "reduce_min", "reduce_max",
                                  "reduce_max", "reduce_and", "reduce_or",  "reduce_xor"};

const char* name_of(uint8_t operation) { return kNames[operation]; }

/// The lane that `lane` reads from, or `lane` itself where the segment ends.
uint32_t shuffle_source(WarpOperation operation, uint32_t lane, uint32_t argument) {
  const uint32_t width = argument >> 16U;
  const uint32_t amount = argument & 0xFFFFU;
  const uint32_t first = lane & ~(width - 1);
  const uint32_t last = first + width - 1;
  switch (operation) {
    case WarpOperation::shuffle_index: return first + (amount & (width - 1));
    case WarpOperation::shuffle_up: return lane < first + amount ? lane : lane - amount;
    case WarpOperation::shuffle_down: return lane + amount > last ? lane : lane + amount;
    default: return (lane ^ amount) > last ? lane : lane ^ amount;
  }
}

uint64_t reduce(WarpOperation operation, uint64_t a, uint64_t b) {
  const auto signed_a = static_cast<int32_t>(a);
  const auto signed_b = static_cast<int32_t>(b);
  switch (operation) {
    case WarpOperation::reduce_min: return std::min(a, b);
    case WarpOperation::reduce_max: return std::max(a, b);
    case WarpOperation::reduce_min_signed: return static_cast<uint32_t>(std::min(signed_a, signed_b));
    case WarpOperation::reduce_max_signed: return static_cast<uint32_t>(std::max(signed_a, signed_b));
    case WarpOperation::reduce_and: return a & b;
    case WarpOperation::reduce_or: return a | b;
    case WarpOperation::reduce_xor: return a ^ b;
    default: return static_cast<uint32_t>(a + b);
  }
}

template <class Function>
void for_each_lane(uint32_t mask, Function function) {
  for (; mask != 0; mask &= mask - 1) function(static_cast<uint32_t>(std::countr_zero(mask)));
}

/// The same leader for the same mask all through a run, another one with another seed: nothing promises the lowest
/// lane.
uint32_t elected_lane(uint32_t mask) {
  const uint32_t count = static_cast<uint32_t>(std::popcount(mask));
  Random random(world().report.seed ^ (uint64_t{mask} << 20U));
  for (uint32_t skip = random.below(count); skip > 0; --skip) mask &= mask - 1;
  return static_cast<uint32_t>(std::countr_zero(mask));
}

bool is_shuffle(WarpOperation operation) {
  return operation == WarpOperation::shuffle_index || operation == WarpOperation::shuffle_up ||
         operation == WarpOperation::shuffle_down || operation == WarpOperation::shuffle_xor;
}

void finish_shuffle(Warp& warp, const WarpCollective& group) {
  for_each_lane(group.mask, [&](uint32_t lane) {
    const uint32_t source = shuffle_source(static_cast<WarpOperation>(group.operation), lane, group.arguments[lane]);
    if ((group.mask >> source & 1U) == 0) {
      world().fail(FindingKind::divergent_collective, group.where,
                   fmt::format("{} of lane {} reads lane {}, which mask {:#x} does not name", name_of(group.operation),
                               lane, source, group.mask));
    }
    warp.lanes[lane].result = group.values[source];
  });
}

void finish_match(Warp& warp, const WarpCollective& group) {
  for_each_lane(group.mask, [&](uint32_t lane) {
    uint32_t equal = 0;
    for_each_lane(group.mask,
                  [&](uint32_t other) { equal |= group.values[other] == group.values[lane] ? 1U << other : 0U; });
    warp.lanes[lane].result = equal;
  });
}

/// syncwarp is the one warp collective that orders memory.
void finish_sync(Warp& warp, const WarpCollective& group) {
  if (!world().races.enabled()) return;
  Gathering gathering;
  for_each_lane(group.mask, [&](uint32_t lane) { world().races.publish(warp.lanes[lane], gathering); });
  for_each_lane(group.mask, [&](uint32_t lane) { world().races.learn(warp.lanes[lane], gathering.sum()); });
}

/// ENSURES every named lane has its result.
void finish(Warp& warp, const WarpCollective& group) {
  const auto operation = static_cast<WarpOperation>(group.operation);
  const auto set_all = [&](uint64_t result) {
    for_each_lane(group.mask, [&](uint32_t lane) { warp.lanes[lane].result = result; });
  };
  switch (operation) {
    case WarpOperation::sync: return finish_sync(warp, group);
    case WarpOperation::elect: return set_all(elected_lane(group.mask));
    case WarpOperation::shuffle_index:
    case WarpOperation::shuffle_up:
    case WarpOperation::shuffle_down:
    case WarpOperation::shuffle_xor: return finish_shuffle(warp, group);
    case WarpOperation::match_any: return finish_match(warp, group);
    case WarpOperation::ballot:
    case WarpOperation::any:
    case WarpOperation::all: {
      uint32_t votes = 0;
      for_each_lane(group.mask, [&](uint32_t lane) { votes |= group.values[lane] != 0 ? 1U << lane : 0U; });
      if (operation == WarpOperation::ballot) return set_all(votes);
      return set_all(operation == WarpOperation::any ? votes != 0 : votes == group.mask);
    }
    default: break;
  }
  uint64_t total = group.values[static_cast<uint32_t>(std::countr_zero(group.mask))];
  for_each_lane(group.mask & (group.mask - 1),
                [&](uint32_t lane) { total = reduce(operation, total, group.values[lane]); });
  set_all(total);
}

/// The group that waits for this lane with this operation, or a new one.
WarpCollective& find_group(Warp& warp, uint8_t operation, uint32_t mask, const Where& where) {
  for (WarpCollective& group : warp.collectives) {
    if ((group.mask & mask) == 0) continue;
    if (group.mask == mask && group.operation == operation) return group;
    world().fail(
        FindingKind::divergent_collective, where,
        fmt::format("{} with mask {:#x} meets lanes {:#x} that wait in {} with mask {:#x} at {}", name_of(operation),
                    mask, group.arrived, name_of(group.operation), group.mask, short_location(group.where)));
  }
  warp.collectives.emplace_back();
  WarpCollective& group = warp.collectives.back();
  group.operation = operation;
  group.mask = mask;
  group.where = where;
  return group;
}

}  // namespace

uint64_t warp_collective(WarpOperation operation, uint32_t mask, uint64_t value, uint32_t argument,
                         const Where& where) {
  step();
  Lane& lane = self();
  Warp& warp = *lane.warp;
  const auto code = static_cast<uint8_t>(operation);
  if ((mask >> lane.lane_idx & 1U) == 0 || (mask & warp.exited) != 0) {
    world().fail(FindingKind::divergent_collective, where,
                 fmt::format("{}: mask {:#x} must name the caller and no lane that has exited (exited: {:#x})",
                             name_of(code), mask, warp.exited));
  }
  if (world().has_mma && is_shuffle(operation)) check_finished(&value, 1, where);
  WarpCollective& group = find_group(warp, code, mask, where);
  group.arrived |= 1U << lane.lane_idx;
  group.values[lane.lane_idx] = value;
  group.arguments[lane.lane_idx] = argument;
  if (group.arrived != mask) {
    world().scheduler.block({WaitKind::warp_collective, where, kNames[code], mask});
    return lane.result;
  }
  finish(warp, group);
  std::swap(group, warp.collectives.back());
  warp.collectives.pop_back();
  for_each_lane(mask & ~(1U << lane.lane_idx),
                [&](uint32_t other) { world().scheduler.make_ready(warp.lanes[other]); });
  return lane.result;
}

void check_collectives_at_exit(const Lane& lane) {
  for (const WarpCollective& group : lane.warp->collectives) {
    if ((group.mask >> lane.lane_idx & 1U) == 0) continue;
    const auto waiter = static_cast<uint32_t>(std::countr_zero(group.arrived));
    world().note(FindingKind::divergent_collective, &lane.warp->lanes[waiter], group.where,
                 fmt::format("{} with mask {:#x} waits for lane {}, which has exited", name_of(group.operation),
                             group.mask, lane.lane_idx));
    return world().scheduler.request_stop();
  }
}

void warpgroup_collective(const char* name, uint64_t argument, void* payload,
                          void (*finish_all)(void* const payloads[128], void* context), void* context,
                          const Where& where) {
  step();
  Lane& lane = self();
  const uint32_t warpgroup_idx = lane.warp->warp_idx / kWarpgroupWarps;
  if (warpgroup_idx >= lane.block->warpgroups.size()) {
    world().fail(FindingKind::divergent_collective, where,
                 fmt::format("{} needs four warps: warp {} is beyond the block's last whole warpgroup", name,
                             lane.warp->warp_idx));
  }
  WarpgroupCollective& group = lane.block->warpgroups[warpgroup_idx];
  if (group.num_arrived > 0 && (std::string_view(group.name) != name || group.argument != argument)) {
    world().fail(FindingKind::divergent_collective, where,
                 fmt::format("{} of warpgroup {} meets lanes that wait in {} with other operands at {}", name,
                             warpgroup_idx, group.name, short_location(group.where)));
  }
  group.name = name;
  group.argument = argument;
  group.where = where;
  group.payloads[lane.thread_idx % group.payloads.size()] = payload;
  if (++group.num_arrived < group.payloads.size()) {
    return world().scheduler.block({WaitKind::warpgroup_collective, where, name, argument});
  }
  group.num_arrived = 0;
  finish_all(group.payloads.data(), context);
  const uint32_t first = warpgroup_idx * kWarpgroupLanes;
  for (uint32_t i = 0; i < group.payloads.size(); ++i) {
    Lane& other = lane.block->lanes[first + i];
    if (&other != &lane) world().scheduler.make_ready(other);
  }
}

}  // namespace megamoe::emu
