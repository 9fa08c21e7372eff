// How knowledge travels between lanes: the synchronising half of the race detector.

#include <algorithm>

#include "emu/races.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

bool is_release(ptx::Order order) { return order == ptx::Order::release || order == ptx::Order::acq_rel; }
bool is_acquire(ptx::Order order) { return order == ptx::Order::acquire || order == ptx::Order::acq_rel; }

/// One of the blocks that `scope` reaches from `block`: equal for two blocks that share the scope.
uint64_t domain_of(ptx::Scope scope, const Block& block) {
  switch (scope) {
    case ptx::Scope::cta: return reinterpret_cast<uintptr_t>(&block);
    case ptx::Scope::cluster: return reinterpret_cast<uintptr_t>(block.cluster);
    case ptx::Scope::gpu: return block.rank;
    case ptx::Scope::sys: return 0;
  }
  return 0;
}

}  // namespace

void RaceDetector::publish(Lane& lane, Gathering& gathering) {
  gathering.add(lane.knowledge, {lane.id, lane.clock});
  ++lane.clock;
}

void RaceDetector::learn_past_grid(Lane& lane, const Knowledge& knowledge) {
  lane.knowledge.join(knowledge);
  lane.knowledge.async_shared.join(knowledge.seen);
  lane.knowledge.async_global.join(knowledge.seen);
}

bool RaceDetector::reaches(const ReleasedEntry& entry, const Lane& lane, ptx::Scope scope) {
  const ptx::Scope narrower = std::min(entry.scope, scope);
  return domain_of(narrower, *entry.block) == domain_of(narrower, *lane.block);
}

void RaceDetector::add_released(Released& released, const Lane& lane, ptx::Scope scope, const Knowledge& knowledge,
                                Epoch epoch) {
  for (ReleasedEntry& entry : released) {
    if (entry.scope == scope && domain_of(scope, *entry.block) == domain_of(scope, *lane.block)) {
      return entry.gathering.add(knowledge, epoch);
    }
  }
  released.push_back({scope, lane.block, {}});
  released.back().gathering.add(knowledge, epoch);
}

void RaceDetector::release_store(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope) {
  if (!enabled_) return;
  released_[address].clear();
  read_modify_write(lane, address, order, scope);
}

void RaceDetector::read_modify_write(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope) {
  if (!enabled_) return;
  acquire(lane, address, order, scope);
  Released& released = released_[address];
  if (is_release(order)) {
    add_released(released, lane, scope, lane.knowledge, {lane.id, lane.clock});
    ++lane.clock;
  } else if (lane.release_fence.clock != 0) {
    // fence; relaxed write: together a release.
    const ptx::Scope narrower = std::min(scope, lane.release_fence_scope);
    add_released(released, lane, narrower, lane.at_release_fence, lane.release_fence);
  }
}

void RaceDetector::acquire(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope) {
  if (!enabled_) return;
  const auto found = released_.find(address);
  if (found == released_.end()) return;
  for (const ReleasedEntry& entry : found->second) {
    if (!reaches(entry, lane, scope)) continue;
    if (is_acquire(order)) {
      learn(lane, entry.gathering.sum());
    } else {
      // Known after the lane's next fence, as far as that reaches.
      Released& relaxed = relaxed_[&lane];
      const ptx::Scope narrower = std::min(entry.scope, scope);
      const auto same = std::find_if(relaxed.begin(), relaxed.end(), [&](const ReleasedEntry& earlier) {
        return earlier.scope == narrower && earlier.block == entry.block;
      });
      if (same == relaxed.end()) {
        relaxed.push_back({narrower, entry.block, entry.gathering});
      } else {
        same->gathering.add(entry.gathering.sum(), {});
      }
    }
  }
}

void RaceDetector::fence(Lane& lane, ptx::Scope scope) {
  if (!enabled_) return;
  if (const auto found = relaxed_.find(&lane); found != relaxed_.end()) {
    for (const ReleasedEntry& entry : found->second) {
      if (reaches(entry, lane, scope)) learn(lane, entry.gathering.sum());
    }
    relaxed_.erase(found);
  }
  lane.at_release_fence = lane.knowledge;
  lane.release_fence = {lane.id, lane.clock};
  lane.release_fence_scope = scope;
  ++lane.clock;
}

void RaceDetector::proxy_fence(Lane& lane, ptx::ProxySpace space) {
  if (!enabled_) return;
  Knowledge& knowledge = lane.knowledge;
  if (space != ptx::ProxySpace::global) {
    knowledge.async_shared.join(knowledge.seen);
    knowledge.async_shared.raise(lane.id, lane.clock);
  }
  if (space != ptx::ProxySpace::shared) {
    knowledge.async_global.join(knowledge.seen);
    knowledge.async_global.raise(lane.id, lane.clock);
  }
  ++lane.clock;
}

Knowledge RaceDetector::snapshot(Lane& lane) {
  Knowledge knowledge = lane.knowledge;
  knowledge.seen.raise(lane.id, lane.clock);
  ++lane.clock;
  return knowledge;
}

}  // namespace megamoe::emu
