#include "emu/barriers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emu/step.hpp"
#include "emu/warp.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

/// A barrier is for whole warps: a lane must not arrive at one while another of its warp waits at a different one.
void check_aligned(const Lane& lane, const NamedBarrier& barrier, const Where& where) {
  for (uint32_t i = 0; i < lane.warp->num_lanes; ++i) {
    const Lane& other = lane.warp->lanes[i];
    if (other.state == LaneState::blocked && other.wait.kind == WaitKind::named_barrier &&
        other.wait.object != &barrier) {
      world().fail(
          FindingKind::divergent_collective, where,
          fmt::format("lane {} of the same warp waits at another barrier at {}", i, short_location(other.wait.where)));
    }
  }
}

NamedBarrier& arrive_at(uint32_t barrier_idx, uint32_t num_threads, const Where& where) {
  step();
  Lane& lane = self();
  if (barrier_idx >= kNumNamedBarriers || num_threads == 0 || num_threads % kWarpLanes != 0) {
    world().fail(FindingKind::barrier_misuse, where,
                 fmt::format("a named barrier must be 0..15 and count whole warps (got barrier {}, {} threads)",
                             barrier_idx, num_threads));
  }
  NamedBarrier& barrier = lane.block->barriers[barrier_idx];
  check_aligned(lane, barrier, where);
  if (barrier.num_arrived > 0 && barrier.num_expected != num_threads) {
    world().fail(FindingKind::barrier_misuse, where,
                 fmt::format("barrier {} must have one thread count (got {}, and {} at {})", barrier_idx, num_threads,
                             barrier.num_expected, short_location(barrier.where)));
  }
  barrier.num_expected = num_threads;
  barrier.where = where;
  ++barrier.num_arrived;
  if (world().races.enabled()) world().races.publish(lane, barrier.gathering);
  return barrier;
}

void release_waiting(NamedBarrier& barrier) {
  barrier.num_arrived = 0;
  ++world().version;
  for (Lane* lane : barrier.waiting) {
    if (world().races.enabled()) world().races.learn(*lane, barrier.gathering.sum());
    world().scheduler.make_ready(*lane);
  }
  barrier.waiting.clear();
}

/// ENSURES the next phase has begun when nobody is missing.
void finish_cluster_phase(Cluster& cluster) {
  if (cluster.num_arrived + cluster.num_exited < cluster.num_lanes || cluster.num_arrived == 0) return;
  cluster.passed = cluster.gathering.sum();
  cluster.gathering.clear();
  cluster.num_arrived = 0;
  cluster.num_exited += cluster.num_arrived_exited;
  cluster.num_arrived_exited = 0;
  ++cluster.phase;
  ++world().version;
  for (Lane* lane : cluster.waiting) world().scheduler.make_ready(*lane);
  cluster.waiting.clear();
}

struct RegisterRequest {
  RegisterChange change;
  uint32_t num_registers;
  Where where;
};

/// Runs in the last lane of the warpgroup.
void change_registers(void* const* payloads, void* context) {
  (void)payloads;
  const auto& request = *static_cast<const RegisterRequest*>(context);
  Block& block = *self().block;
  uint32_t& held = block.warpgroup_registers[self().warp->warp_idx / kWarpgroupWarps];
  const bool in_line =
      request.change == RegisterChange::grow ? request.num_registers >= held : request.num_registers <= held;
  if (!in_line) {
    world().fail(FindingKind::registers, request.where,
                 fmt::format("setmaxnreg.{} must not go the other way (has {}, asks for {})",
                             request.change == RegisterChange::grow ? "inc" : "dec", held, request.num_registers));
  }
  if (request.change == RegisterChange::shrink) {
    block.num_free_registers += (held - request.num_registers) * kWarpgroupLanes;
    ++world().version;
    for (uint32_t i = 0; i < block.num_lanes; ++i) {
      if (block.lanes[i].wait.kind == WaitKind::registers) world().scheduler.make_ready(block.lanes[i]);
    }
    held = request.num_registers;
    return;
  }
  const uint32_t needed = (request.num_registers - held) * kWarpgroupLanes;
  while (block.num_free_registers < needed) {
    world().scheduler.block({WaitKind::registers, request.where, &block, needed});
  }
  block.num_free_registers -= needed;
  held = request.num_registers;
}

}  // namespace

void barrier_sync(uint32_t barrier_idx, uint32_t num_threads, const Where& where) {
  NamedBarrier& barrier = arrive_at(barrier_idx, num_threads, where);
  Lane& lane = self();
  world().stores.order(lane, ptx::Scope::cta);
  if (barrier.num_arrived < num_threads) {
    barrier.waiting.push_back(&lane);
    return world().scheduler.block({WaitKind::named_barrier, where, &barrier, barrier_idx});
  }
  if (world().races.enabled()) world().races.learn(lane, barrier.gathering.sum());
  release_waiting(barrier);
  barrier.gathering.clear();
}

void barrier_arrive(uint32_t barrier_idx, uint32_t num_threads, const Where& where) {
  NamedBarrier& barrier = arrive_at(barrier_idx, num_threads, where);
  world().stores.order(self(), ptx::Scope::cta);
  if (barrier.num_arrived < num_threads) return;
  release_waiting(barrier);
  barrier.gathering.clear();
}

void cluster_arrive(ptx::Order order, const Where& where) {
  step();
  Lane& lane = self();
  Cluster& cluster = *lane.block->cluster;
  if (lane.waits_for_cluster) {
    world().fail(FindingKind::barrier_misuse, where, "barrier.cluster.arrive twice without barrier.cluster.wait");
  }
  if (order != ptx::Order::relaxed) {
    world().stores.order(lane, ptx::Scope::cluster);
    if (world().races.enabled()) world().races.publish(lane, cluster.gathering);
  }
  lane.waits_for_cluster = true;
  lane.cluster_phase = cluster.phase;
  ++cluster.num_arrived;
  finish_cluster_phase(cluster);
}

void cluster_wait(const Where& where) {
  step();
  Lane& lane = self();
  Cluster& cluster = *lane.block->cluster;
  if (!lane.waits_for_cluster) {
    world().fail(FindingKind::barrier_misuse, where, "barrier.cluster.wait without barrier.cluster.arrive before it");
  }
  if (cluster.phase == lane.cluster_phase) {
    cluster.waiting.push_back(&lane);
    world().scheduler.block({WaitKind::cluster_barrier, where, &cluster, 0});
  }
  lane.waits_for_cluster = false;
  if (world().races.enabled()) world().races.learn(lane, cluster.passed);
}

void leave_cluster_barrier(Lane& lane) {
  Cluster& cluster = *lane.block->cluster;
  if (lane.waits_for_cluster && lane.cluster_phase == cluster.phase) {
    ++cluster.num_arrived_exited;
  } else {
    ++cluster.num_exited;
  }
  finish_cluster_phase(cluster);
}

void set_max_registers(RegisterChange change, uint32_t num_registers, const Where& where) {
  if (num_registers < 24 || num_registers > 256 || num_registers % 8 != 0) {
    world().fail(FindingKind::registers, where,
                 fmt::format("setmaxnreg must be a multiple of 8 from 24 to 256 (got {})", num_registers));
  }
  RegisterRequest request{change, num_registers, where};
  warpgroup_collective(change == RegisterChange::grow ? "setmaxnreg.inc" : "setmaxnreg.dec", num_registers, nullptr,
                       change_registers, &request, where);
}

void wait_for_earlier_grid(const Where& where) {
  step();
  for (Grid* before = self().block->grid->before; before != nullptr; before = before->before) {
    if (!before->done()) {
      before->waiting.push_back(&self());
      world().scheduler.block({WaitKind::earlier_grid, where, before, before->index});
    }
    world().stores.drain_rank(before->launch.rank);
    if (world().races.enabled()) world().races.learn_past_grid(self(), before->gathering.sum());
  }
}

void launch_dependents(const Where& where) {
  (void)where;
  step();
  Block& block = *self().block;
  if (block.triggered) return;
  block.triggered = true;
  ++block.grid->num_triggered;
  ++world().version;
  world().place_blocks();
}

}  // namespace megamoe::emu
