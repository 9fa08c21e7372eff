#include "emu/async_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/mbarrier.hpp"
#include "emu/memory.hpp"
#include "emu/places.hpp"
#include "formats/bf16.hpp"

namespace megamoe::emu {

namespace {

bool any_state(const uint8_t* states, uint32_t num_bytes, uint8_t bit) {
  return std::any_of(states, states + num_bytes, [&](uint8_t state) { return (state & bit) != 0; });
}

bool all_states(const uint8_t* states, uint32_t num_bytes, uint8_t bit) {
  return std::all_of(states, states + num_bytes, [&](uint8_t state) { return (state & bit) != 0; });
}

void set_states(uint8_t* states, uint32_t num_bytes, uint8_t set, uint8_t cleared) {
  for (uint32_t i = 0; i < num_bytes; ++i) states[i] = static_cast<uint8_t>((states[i] | set) & ~cleared);
}

bool overlaps(const Segment& segment, const std::byte* address, uint32_t num_bytes, bool source) {
  const std::byte* begin = source ? segment.source : segment.destination;
  return begin != nullptr && begin < address + num_bytes && address < begin + segment.num_bytes;
}

void wake_group_waiter(Lane& lane) {
  if (lane.state == LaneState::blocked && lane.wait.kind == WaitKind::bulk_group) world().scheduler.make_ready(lane);
}

void add_to(std::byte* destination, const std::byte* source, uint32_t num_bytes, CopyKind kind) {
  if (kind == CopyKind::reduce_add_f32) {
    for (uint32_t i = 0; i < num_bytes; i += sizeof(float)) {
      float sum = 0;
      float value = 0;
      std::memcpy(&sum, destination + i, sizeof sum);
      std::memcpy(&value, source + i, sizeof value);
      sum = add_in_memory(sum, value);
      std::memcpy(destination + i, &sum, sizeof sum);
    }
    return;
  }
  for (uint32_t i = 0; i < num_bytes; i += sizeof(uint16_t)) {
    uint16_t sum = 0;
    uint16_t value = 0;
    std::memcpy(&sum, destination + i, sizeof sum);
    std::memcpy(&value, source + i, sizeof value);
    sum = bf16_from_float(bf16_to_float(sum) + bf16_to_float(value));
    std::memcpy(destination + i, &sum, sizeof sum);
  }
}

bool is_reduction(CopyKind kind) { return kind == CopyKind::reduce_add_f32 || kind == CopyKind::reduce_add_bf16; }

}  // namespace

void AsyncCopies::begin() {
  constexpr uint32_t kMeanDelays[] = {1, 3, 10, 100};
  mean_delay_ = kMeanDelays[world_.random.below(4)];
  copies_.clear();
}

void AsyncCopies::check_proxy(const Copy& copy, const Segment& segment) const {
  if (segment.source == nullptr || !world_.arena->is_slot(segment.source)) return;
  const uint32_t num_fences = world_.owner_of(segment.source)->num_proxy_fences;
  for (uint32_t i = 0; i < segment.num_bytes; i += kStampBytes) {
    if (world_.arena->stamp(segment.source + i) != num_fences) continue;
    return world_.note(FindingKind::missing_proxy_fence, copy.issuer, copy.where,
                       fmt::format("the copy reads {}, written by ordinary stores, and no lane has executed "
                                   "fence.proxy.async since",
                                   place_of(segment.source + i)));
  }
}

void AsyncCopies::check_segment(const Copy& copy, const Segment& segment) const {
  const auto check_range = [&](const std::byte* address, const char* what) {
    const bool inside =
        world_.arena->contains(address) && all_states(world_.arena->states(address), segment.num_bytes, kAllocated);
    if (!inside) {
      world_.fail(FindingKind::out_of_bounds, copy.where,
                  fmt::format("a copy's {} of {} bytes at {}", what, segment.num_bytes, place_of(address)));
    }
    if (any_state(world_.arena->states(address), segment.num_bytes, kMBarrier)) {
      world_.fail(FindingKind::barrier_misuse, copy.where,
                  fmt::format("a copy's {} at {} covers an mbarrier", what, place_of(address)));
    }
  };
  check_range(segment.destination, "destination");
  uint8_t busy = static_cast<uint8_t>(kCopyReads | (is_reduction(copy.kind) ? 0 : kCopyWrites));
  const char* verb = "writes";
  const std::byte* at = segment.destination;
  if (!any_state(world_.arena->states(at), segment.num_bytes, busy) && segment.source != nullptr) {
    check_range(segment.source, "source");
    at = segment.source;
    busy = kCopyWrites;
    verb = "reads";
  }
  if (any_state(world_.arena->states(at), segment.num_bytes, busy)) {
    world_.note(FindingKind::copy_in_flight, copy.issuer, copy.where,
                fmt::format("the copy {} {} bytes at {} while an earlier one is not finished with them{}", verb,
                            segment.num_bytes, place_of(at), describe_copy_at(at)));
  }
  check_proxy(copy, segment);
}

void AsyncCopies::mark_busy(const Copy& copy, const Segment& segment) const {
  uint8_t* states = world_.arena->states(segment.destination);
  if (copy.kind == CopyKind::load) set_states(states, segment.num_bytes, kCopyWrites, kWritten);
  if (copy.kind == CopyKind::store) set_states(states, segment.num_bytes, kCopyWrites, 0);
  if (copy.kind != CopyKind::load) {
    set_states(world_.arena->states(segment.source), segment.num_bytes, kCopyReads, 0);
  }
  for (const std::byte* at : {const_cast<const std::byte*>(segment.destination), segment.source}) {
    Block* block = at == nullptr ? nullptr : world_.owner_of(at);
    if (block != nullptr) ++block->num_copies;
  }
}

void AsyncCopies::issue(std::unique_ptr<Copy> copy) {
  for (const Segment& segment : copy->segments) {
    if (segment.num_bytes > 0) check_segment(*copy, segment);
  }
  for (const Segment& segment : copy->segments) mark_busy(*copy, segment);
  if (world_.races.enabled()) copy->knowledge = world_.races.snapshot(*copy->issuer);
  copies_.push_back(std::move(copy));
}

Epoch AsyncCopies::epoch_of_read(const Copy& copy) const {
  if (copy.kind == CopyKind::load) return epoch_of_write(copy, copy.segments.front().destination);
  return {copy.issuer->bulk.read_agent, copy.group + 1};
}

Epoch AsyncCopies::epoch_of_write(const Copy& copy, const void* destination) const {
  if (copy.kind != CopyKind::load) return {copy.issuer->bulk.write_agent, copy.group + 1};
  // A multicast completes on the mbarrier of each block that it writes to.
  for (const void* mbarrier : copy.mbarriers) {
    const Block* block = world_.owner_of(mbarrier);
    if (block != world_.owner_of(destination)) continue;
    const auto found = block->mbarriers.find(mbarrier);
    if (found != block->mbarriers.end()) {
      return {found->second->agent, static_cast<uint32_t>(found->second->phase) + 1};
    }
  }
  return {};
}

void AsyncCopies::finish_load(Copy& copy) {
  for (const Segment& segment : copy.segments) {
    uint8_t* states = world_.arena->states(segment.destination);
    if (segment.source == nullptr) {
      std::memset(segment.destination, 0, segment.num_bytes);
      set_states(states, segment.num_bytes, kWritten, kCopyWrites);
    } else {
      world_.stores.flush_for(*copy.issuer, segment.source, segment.num_bytes);
      world_.races.on_copy_read(*copy.issuer, epoch_of_read(copy), copy.knowledge, segment.source, segment.num_bytes,
                                copy.where);
      std::memcpy(segment.destination, segment.source, segment.num_bytes);
      const uint8_t* from = world_.arena->states(segment.source);
      // What nobody wrote stays so in its copy: padding may travel, but nobody may look at it.
      for (uint32_t i = 0; i < segment.num_bytes; ++i) {
        states[i] = static_cast<uint8_t>((states[i] & ~(kCopyWrites | kWritten)) | (from[i] & kWritten));
      }
      if (Block* block = world_.owner_of(segment.source); block != nullptr) --block->num_copies;
    }
    world_.races.on_copy_write(*copy.issuer, epoch_of_write(copy, segment.destination), copy.knowledge,
                               segment.destination, segment.num_bytes, copy.where);
    for (uint32_t i = 0; i < segment.num_bytes; i += kStampBytes) world_.arena->stamp(segment.destination + i) = 0;
    --world_.owner_of(segment.destination)->num_copies;
  }
  for (void* mbarrier : copy.mbarriers) mbarrier_complete(mbarrier, copy.bytes_per_mbarrier, *copy.issuer, copy.where);
}

void AsyncCopies::read_source(Copy& copy) {
  copy.has_read = true;
  for (const Segment& segment : copy.segments) {
    world_.races.on_copy_read(*copy.issuer, epoch_of_read(copy), copy.knowledge, segment.source, segment.num_bytes,
                              copy.where);
    uint8_t* states = world_.arena->states(segment.source);
    copy.data.insert(copy.data.end(), segment.source, segment.source + segment.num_bytes);
    copy.states.insert(copy.states.end(), states, states + segment.num_bytes);
    set_states(states, segment.num_bytes, 0, kCopyReads);
    --world_.owner_of(segment.source)->num_copies;
  }
  // Other copies may read the same bytes and are not done.
  for (const std::unique_ptr<Copy>& other : copies_) {
    if (other->has_read || other->kind == CopyKind::load) continue;
    for (const Segment& segment : other->segments) {
      set_states(world_.arena->states(segment.source), segment.num_bytes, kCopyReads, 0);
    }
  }
  --copy.issuer->bulk.num_unread[copy.group];
  wake_group_waiter(*copy.issuer);
}

void AsyncCopies::finish_store(Copy& copy) {
  size_t offset = 0;
  for (const Segment& segment : copy.segments) {
    uint8_t* states = world_.arena->states(segment.destination);
    const Epoch epoch = epoch_of_write(copy, segment.destination);
    world_.stores.flush_for(*copy.issuer, segment.destination, segment.num_bytes);
    if (copy.kind == CopyKind::store) {
      world_.races.on_copy_write(*copy.issuer, epoch, copy.knowledge, segment.destination, segment.num_bytes,
                                 copy.where);
      std::memcpy(segment.destination, copy.data.data() + offset, segment.num_bytes);
      for (uint32_t i = 0; i < segment.num_bytes; ++i) {
        states[i] =
            static_cast<uint8_t>((states[i] & ~(kCopyWrites | kWritten)) | (copy.states[offset + i] & kWritten));
      }
    } else {
      world_.races.on_copy_reduce(*copy.issuer, epoch, copy.knowledge, segment.destination, segment.num_bytes,
                                  copy.where);
      add_to(segment.destination, copy.data.data() + offset, segment.num_bytes, copy.kind);
    }
    offset += segment.num_bytes;
  }
  --copy.issuer->bulk.num_unfinished[copy.group];
  wake_group_waiter(*copy.issuer);
}

void AsyncCopies::advance_at(size_t index) {
  ++world_.version;
  if (copies_[index]->kind != CopyKind::load && !copies_[index]->has_read) return read_source(*copies_[index]);
  const std::unique_ptr<Copy> finished = std::move(copies_[index]);
  copies_[index] = std::move(copies_.back());
  copies_.pop_back();
  if (finished->kind == CopyKind::load) {
    finish_load(*finished);
  } else {
    finish_store(*finished);
  }
}

bool AsyncCopies::advance() {
  if (copies_.empty()) return false;
  advance_at(world_.random.below(static_cast<uint32_t>(copies_.size())));
  return true;
}

void AsyncCopies::finish_all_of(const Grid& grid) {
  for (size_t i = 0; i < copies_.size();) {
    if (copies_[i]->issuer->block->grid == &grid) {
      advance_at(i);
    } else {
      ++i;
    }
  }
}

void AsyncCopies::maybe_advance() {
  if (!copies_.empty() && world_.random.one_in(mean_delay_)) advance();
}

void AsyncCopies::check_block_exit(const Block& block) {
  if (block.num_copies == 0) return;
  for (const std::unique_ptr<Copy>& copy : copies_) {
    for (const Segment& segment : copy->segments) {
      const bool reads = !copy->has_read && segment.source != nullptr && world_.owner_of(segment.source) == &block;
      if (!reads && world_.owner_of(segment.destination) != &block) continue;
      world_.note(FindingKind::copy_in_flight, copy->issuer, copy->where,
                  fmt::format("block {} of rank {} has exited while this copy still {} its shared memory",
                              block.block_idx, block.rank, reads ? "reads" : "writes"));
      return world_.scheduler.request_stop();
    }
  }
}

std::string AsyncCopies::describe_copy_at(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  for (const std::unique_ptr<Copy>& copy : copies_) {
    for (const Segment& segment : copy->segments) {
      const bool hit = overlaps(segment, at, 1, false) || (!copy->has_read && overlaps(segment, at, 1, true));
      if (hit) return fmt::format(" (issued at {})", short_location(copy->where));
    }
  }
  return {};
}

}  // namespace megamoe::emu
