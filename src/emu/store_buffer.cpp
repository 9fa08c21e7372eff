#include "emu/store_buffer.hpp"

#include <algorithm>
#include <cstring>

#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

/// Enough to reorder, few enough to search.
constexpr size_t kMaxWrites = 256;

}  // namespace

void StoreBuffers::begin(bool enabled) {
  constexpr uint32_t kMeanDelays[] = {1, 4, 16, 64};
  enabled_ = enabled;
  mean_delay_ = kMeanDelays[world_.random.below(4)];
  writes_.clear();
  granules_.clear();
}

bool StoreBuffers::sees(const Lane& lane, const Write& write) {
  switch (write.place) {
    case Place::lane: return write.lane == &lane;
    case Place::block: return write.lane->block == lane.block;
    case Place::rank: return write.lane->block->rank == lane.block->rank;
  }
  return false;
}

bool StoreBuffers::take(Lane& lane, void* destination, const void* source, uint32_t num_bytes) {
  if (!enabled_ || world_.arena->is_slot(destination)) return false;
  if (writes_.size() >= kMaxWrites) drain_one();
  Write write{static_cast<std::byte*>(destination), num_bytes, Place::lane, &lane, {}};
  std::memcpy(write.bytes.data(), source, num_bytes);
  writes_.push_back(write);
  ++granules_[granule_of(destination)];
  return true;
}

void StoreBuffers::forward(const Lane& lane, void* value, const void* source, uint32_t num_bytes) const {
  if (writes_.empty() || granules_.count(granule_of(source)) == 0) return;
  const auto* begin = static_cast<const std::byte*>(source);
  // From the outermost place inwards: the lane's own writes are the newest it knows of.
  for (const Place place : {Place::rank, Place::block, Place::lane}) {
    for (const Write& write : writes_) {
      if (write.place != place || !sees(lane, write)) continue;
      const std::byte* first = std::max(begin, static_cast<const std::byte*>(write.address));
      const std::byte* last =
          std::min(begin + num_bytes, static_cast<const std::byte*>(write.address) + write.num_bytes);
      if (first >= last) continue;
      std::memcpy(static_cast<std::byte*>(value) + (first - begin), write.bytes.data() + (first - write.address),
                  static_cast<size_t>(last - first));
    }
  }
}

void StoreBuffers::arrive(size_t index) {
  const Write& write = writes_[index];
  std::memcpy(write.address, write.bytes.data(), write.num_bytes);
  ++world_.version;
  const auto granule = granules_.find(granule_of(write.address));
  if (--granule->second == 0) granules_.erase(granule);
  writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(index));
}

void StoreBuffers::drain_at(size_t index) {
  // Earlier writes to the same place go first.
  const Write chosen = writes_[index];
  for (size_t i = 0; i < index;) {
    const Write& earlier = writes_[i];
    if (granule_of(earlier.address) == granule_of(chosen.address) && sees(*chosen.lane, earlier)) {
      arrive(i);
      --index;
    } else {
      ++i;
    }
  }
  arrive(index);
}

void StoreBuffers::order(const Lane& lane, ptx::Scope scope) {
  if (writes_.empty()) return;
  if (scope == ptx::Scope::sys) {
    for (size_t i = 0; i < writes_.size();) {
      if (sees(lane, writes_[i])) {
        arrive(i);
      } else {
        ++i;
      }
    }
    return;
  }
  const Place place = scope == ptx::Scope::cta ? Place::block : Place::rank;
  for (Write& write : writes_) {
    if (sees(lane, write)) write.place = std::max(write.place, place);
  }
}

void StoreBuffers::flush_for(const Lane& lane, const void* address, size_t num_bytes) {
  if (writes_.empty()) return;
  const auto* begin = static_cast<const std::byte*>(address);
  for (size_t i = 0; i < writes_.size();) {
    const Write& write = writes_[i];
    const bool overlaps = write.address < begin + num_bytes && begin < write.address + write.num_bytes;
    if (overlaps && sees(lane, write)) {
      arrive(i);
    } else {
      ++i;
    }
  }
}

bool StoreBuffers::drain_one() {
  if (writes_.empty()) return false;
  drain_at(world_.random.below(static_cast<uint32_t>(writes_.size())));
  return true;
}

void StoreBuffers::maybe_drain() {
  if (!writes_.empty() && world_.random.one_in(mean_delay_)) drain_one();
}

void StoreBuffers::drain_rank(uint32_t rank) {
  for (size_t i = 0; i < writes_.size();) {
    if (writes_[i].lane->block->rank == rank) {
      arrive(i);
    } else {
      ++i;
    }
  }
}

void StoreBuffers::drain_all() {
  while (!writes_.empty()) arrive(0);
}

}  // namespace megamoe::emu
