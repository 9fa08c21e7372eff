// The bulk copy instructions and their groups: what layer functions call.

#include <fmt/format.h>

#include <algorithm>

#include "emu/async_copy.hpp"
#include "emu/mbarrier.hpp"
#include "emu/memory.hpp"
#include "emu/places.hpp"

namespace megamoe::emu {

namespace {

constexpr uint32_t kBulkBytes = 16;

void check_bulk(const void* destination, const void* source, uint32_t num_bytes, const Where& where) {
  for (const void* address : {destination, source}) {
    if (reinterpret_cast<uintptr_t>(address) % kBulkBytes != 0) {
      world().fail(FindingKind::misaligned, where,
                   fmt::format("a bulk copy's addresses must be aligned to 16 bytes (got {})", place_of(address)));
    }
  }
  if (num_bytes == 0 || num_bytes % kBulkBytes != 0) {
    world().fail(FindingKind::misaligned, where,
                 fmt::format("a bulk copy must move a positive multiple of 16 bytes (got {})", num_bytes));
  }
}

/// The block whose shared memory holds `address`, which must be one of this cluster.
const Block& check_shared(const void* address, const char* what, const Where& where) {
  const Block* block = world().arena->contains(address) ? world().owner_of(address) : nullptr;
  if (block == nullptr || block->cluster != self().block->cluster) {
    world().fail(
        FindingKind::out_of_bounds, where,
        fmt::format("a copy's {} must stand in shared memory of the cluster (got {})", what, place_of(address)));
  }
  return *block;
}

void check_global(const void* address, const char* what, const Where& where) {
  if (world().arena->contains(address) && world().owner_of(address) == nullptr && !world().arena->is_slot(address)) {
    return;
  }
  world().fail(FindingKind::out_of_bounds, where,
               fmt::format("a copy's {} must stand in global memory (got {})", what, place_of(address)));
}

BulkGroups& open_groups(Lane& lane) {
  BulkGroups& groups = lane.bulk;
  if (groups.num_unread.empty()) {
    groups.num_unread.push_back(0);
    groups.num_unfinished.push_back(0);
    if (world().races.enabled()) {
      groups.read_agent = world().races.add_agent(nullptr, *lane.block);
      groups.write_agent = world().races.add_agent(nullptr, *lane.block);
    }
  }
  return groups;
}

}  // namespace

void check_copy_mbarrier(const void* mbarrier, const Block& destination, const Where& where) {
  const Block& block = check_shared(mbarrier, "mbarrier", where);
  if (&block != &destination) {
    world().fail(FindingKind::invalid_copy, where, "a copy's mbarrier must stand in the same block as its destination");
  }
  const MBarrier& barrier = mbarrier_at(mbarrier, where);
  if (!barrier.is_visible_to_copies) {
    world().note(FindingKind::missing_proxy_fence, &self(), where,
                 fmt::format("the copy completes on mbarrier {}, made at {}, and neither fence.mbarrier_init nor "
                             "fence.proxy.async came after",
                             place_of(mbarrier), short_location(barrier.made_at)));
  }
}

std::unique_ptr<Copy> new_copy(CopyKind kind, const Where& where) {
  auto copy = std::make_unique<Copy>();
  copy->kind = kind;
  copy->issuer = &self();
  copy->where = where;
  return copy;
}

std::vector<std::byte*> multicast_addresses(const void* address, uint16_t cta_mask, const Where& where) {
  std::vector<std::byte*> addresses;
  const Block& own = check_shared(address, "destination", where);
  const auto offset = static_cast<const std::byte*>(address) - own.shared;
  const Cluster& cluster = *self().block->cluster;
  for (uint32_t i = 0; i < 16; ++i) {
    if ((cta_mask >> i & 1U) == 0) continue;
    if (i >= cluster.blocks.size()) {
      world().fail(FindingKind::invalid_copy, where,
                   fmt::format("a multicast mask must name blocks of the cluster (got {:#x} with {} blocks)", cta_mask,
                               cluster.blocks.size()));
    }
    addresses.push_back(cluster.blocks[i]->shared + offset);
  }
  return addresses;
}

void bulk_load(void* destination, const void* source, uint32_t num_bytes, void* mbarrier, uint16_t cta_mask,
               const Where& where) {
  step();
  check_bulk(destination, source, num_bytes, where);
  check_global(source, "source", where);
  auto copy = new_copy(CopyKind::load, where);
  copy->bytes_per_mbarrier = num_bytes;
  if (cta_mask == 0) {
    check_copy_mbarrier(mbarrier, check_shared(destination, "destination", where), where);
    copy->segments = {{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), num_bytes}};
    copy->mbarriers = {mbarrier};
  } else {
    for (std::byte* to : multicast_addresses(destination, cta_mask, where)) {
      copy->segments.push_back({to, static_cast<const std::byte*>(source), num_bytes});
    }
    for (std::byte* to : multicast_addresses(mbarrier, cta_mask, where)) {
      check_copy_mbarrier(to, *world().owner_of(to), where);
      copy->mbarriers.push_back(to);
    }
  }
  world().copies.issue(std::move(copy));
}

void bulk_push(void* destination, const void* source, uint32_t num_bytes, void* mbarrier, const Where& where) {
  step();
  check_bulk(destination, source, num_bytes, where);
  check_copy_mbarrier(mbarrier, check_shared(destination, "destination", where), where);
  if (&check_shared(source, "source", where) != self().block) {
    world().fail(FindingKind::out_of_bounds, where, "a copy to the cluster must start in its own block");
  }
  auto copy = new_copy(CopyKind::load, where);
  copy->segments = {{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), num_bytes}};
  copy->mbarriers = {mbarrier};
  copy->bytes_per_mbarrier = num_bytes;
  world().copies.issue(std::move(copy));
}

void issue_in_group(std::unique_ptr<Copy> copy) {
  BulkGroups& groups = open_groups(*copy->issuer);
  copy->group = static_cast<uint32_t>(groups.num_unread.size()) - 1;
  ++groups.num_unread.back();
  ++groups.num_unfinished.back();
  world().copies.issue(std::move(copy));
}

void bulk_store(CopyKind kind, void* destination, const void* source, uint32_t num_bytes, const Where& where) {
  step();
  check_bulk(destination, source, num_bytes, where);
  check_global(destination, "destination", where);
  if (&check_shared(source, "source", where) != self().block) {
    world().fail(FindingKind::out_of_bounds, where, "a copy to global memory must start in its own block");
  }
  auto copy = new_copy(kind, where);
  copy->segments = {{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), num_bytes}};
  issue_in_group(std::move(copy));
}

void bulk_commit_group(const Where& where) {
  (void)where;
  step();
  BulkGroups& groups = open_groups(self());
  groups.num_unread.push_back(0);
  groups.num_unfinished.push_back(0);
}

void bulk_wait_group(uint32_t num_pending, BulkWait wait, const Where& where) {
  step();
  Lane& lane = self();
  BulkGroups& groups = open_groups(lane);
  const auto num_committed = static_cast<uint32_t>(groups.num_unread.size()) - 1;
  const uint32_t num_awaited = num_committed - std::min(num_pending, num_committed);
  const std::vector<uint32_t>& open = wait == BulkWait::reads ? groups.num_unread : groups.num_unfinished;
  uint32_t& first = wait == BulkWait::reads ? groups.num_groups_read : groups.num_groups_finished;
  for (; first < num_awaited; ++first) {
    while (open[first] > 0) world().scheduler.block({WaitKind::bulk_group, where, &groups, first});
  }
  if (!world().races.enabled()) return;
  lane.knowledge.seen.raise(groups.read_agent, num_awaited);
  if (wait == BulkWait::writes) lane.knowledge.seen.raise(groups.write_agent, num_awaited);
}

void fence_proxy_async(ptx::ProxySpace space, const Where& where) {
  (void)where;
  step();
  Lane& lane = self();
  if (space != ptx::ProxySpace::global) {
    ++lane.block->num_proxy_fences;
    for (auto& [address, barrier] : lane.block->mbarriers) barrier->is_visible_to_copies = true;
  }
  world().stores.order(lane, ptx::Scope::cta);
  world().races.proxy_fence(lane, space);
}

void fence_mbarrier_init(const Where& where) {
  (void)where;
  step();
  Block& block = *self().block;
  for (auto& [address, barrier] : block.mbarriers) barrier->is_visible_to_copies = true;
}

}  // namespace megamoe::emu
