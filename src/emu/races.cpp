#include "emu/races.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emu/memory.hpp"
#include "emu/places.hpp"
#include "emu/world.hpp"

namespace megamoe::emu {

namespace {

// An epoch in one word: clock, agent, strength (0 weak, else 1 + scope), proxy. Clocks start at 1: 0 means nobody.
constexpr uint32_t kAgentShift = 32;
constexpr uint64_t kAgentMask = (1U << 24U) - 1;
constexpr uint32_t kStrengthShift = 56;
constexpr uint64_t kAsyncBit = uint64_t{1} << 60U;
constexpr uint64_t kManyReaders = uint64_t{1} << 61U;
constexpr uint64_t kSplitCell = uint64_t{1} << 62U;
/// Readers of one granule that are remembered. More are sampled: a race with one of the others shows in other seeds.
constexpr size_t kMaxReaders = 16;

uint64_t pack(Epoch epoch, uint32_t strength, bool is_async) {
  return uint64_t{epoch.clock} | uint64_t{epoch.agent} << kAgentShift | uint64_t{strength} << kStrengthShift |
         (is_async ? kAsyncBit : 0);
}
Epoch epoch_of(uint64_t packed) {
  return {static_cast<uint32_t>(packed >> kAgentShift & kAgentMask), static_cast<uint32_t>(packed)};
}
uint32_t strength_of(uint64_t packed) { return static_cast<uint32_t>(packed >> kStrengthShift & 7U); }

uint32_t strength_of(const AccessKind& kind) {
  return kind.strength == AccessKind::Strength::weak ? 0 : 1 + static_cast<uint32_t>(kind.scope);
}

bool shares_scope(ptx::Scope scope, const Block& a, const Block& b) {
  switch (scope) {
    case ptx::Scope::cta: return &a == &b;
    case ptx::Scope::cluster: return a.cluster == b.cluster;
    case ptx::Scope::gpu: return a.rank == b.rank;
    case ptx::Scope::sys: return true;
  }
  return false;
}

}  // namespace

void RaceDetector::begin(bool enabled) {
  enabled_ = enabled;
  agents_.clear();
  split_.clear();
  readers_.clear();
  free_readers_.clear();
  released_.clear();
  relaxed_.clear();
  if (enabled) world_.arena->clear_cells();
}

// Granules of four bytes; one that was ever accessed by single bytes or halves is kept byte by byte.

std::array<Cell, 4>& RaceDetector::split(Cell& cell) {
  if (cell.write != kSplitCell) {
    split_[&cell] = {cell, cell, cell, cell};
    cell.write = kSplitCell;
  }
  return split_[&cell];
}

template <class Function>
void RaceDetector::for_each_cell(const void* address, uint32_t num_bytes, Function function) {
  Cell* cell = world_.arena->cells(address);
  const auto* byte = static_cast<const std::byte*>(address);
  if (num_bytes < kCellBytes) {
    std::array<Cell, 4>& bytes = split(*cell);
    for (uint32_t i = 0; i < num_bytes; ++i) {
      function(bytes[reinterpret_cast<uintptr_t>(byte + i) % kCellBytes], byte + i);
    }
    return;
  }
  for (uint32_t i = 0; i < num_bytes; i += kCellBytes, ++cell) {
    if (cell->write != kSplitCell) {
      function(*cell, byte + i);
    } else {
      std::array<Cell, 4>& bytes = split(*cell);
      for (uint32_t k = 0; k < kCellBytes; ++k) function(bytes[k], byte + i + k);
    }
  }
}

bool RaceDetector::scopes_meet(uint64_t earlier, const Accessor& accessor) const {
  const uint32_t strength = strength_of(earlier);
  if (strength == 0 || accessor.strength == 0) return false;
  const auto scope = static_cast<ptx::Scope>(std::min(strength, accessor.strength) - 1);
  return shares_scope(scope, *agents_[epoch_of(earlier).agent].block, *accessor.lane->block);
}

RaceDetector::Verdict RaceDetector::judge(uint64_t earlier, bool earlier_writes, const void* address,
                                          const Accessor& accessor) const {
  const Epoch epoch = epoch_of(earlier);
  if (epoch.clock == 0) return Verdict::ordered;
  const bool same_lane = epoch.agent == accessor.epoch.agent;
  if (!same_lane && !accessor.knowledge->seen.knows(epoch)) {
    return scopes_meet(earlier, accessor) ? Verdict::ordered : Verdict::unordered;
  }
  if (!accessor.is_async || (earlier & kAsyncBit) != 0 || !earlier_writes) return Verdict::ordered;
  const VectorClock& fenced =
      world_.arena->is_slot(address) ? accessor.knowledge->async_shared : accessor.knowledge->async_global;
  return fenced.knows(epoch) ? Verdict::ordered : Verdict::needs_proxy_fence;
}

void RaceDetector::note_race(Verdict verdict, uint64_t earlier, uint32_t earlier_where, const char* earlier_verb,
                             const char* verb, const void* address, const Accessor& accessor) {
  const Lane* lane = agents_[epoch_of(earlier).agent].lane;
  const std::string who = lane != nullptr ? name_of(*lane) : std::string("an asynchronous copy");
  const std::string what = fmt::format("{}{} of {}", accessor.is_async ? "asynchronous " : "", verb, place_of(address));
  const std::string before = fmt::format("{} by {} at {}", earlier_verb, who, short_location(wheres_[earlier_where]));
  const bool both_write = earlier_verb[0] == 'w' && verb[0] == 'w';
  if (verdict == Verdict::needs_proxy_fence) {
    world_.note(FindingKind::missing_proxy_fence, accessor.lane, *accessor.where,
                fmt::format("{} needs fence.proxy.async after the {}", what, before));
    return;
  }
  world_.note(both_write ? FindingKind::write_write_race : FindingKind::read_write_race, accessor.lane, *accessor.where,
              fmt::format("{}: nothing orders it after the {}{}", what, before,
                          strength_of(earlier) != 0 && accessor.strength != 0 ? "; a scope is too narrow" : ""));
}

uint32_t RaceDetector::where_id(const Where& where) {
  const uint64_t key = reinterpret_cast<uintptr_t>(where.file_name()) ^ uint64_t { where.line() } << 48U;
  if (key == last_where_) return last_where_id_;
  const auto [found, is_new] = where_ids_.try_emplace(key, static_cast<uint32_t>(wheres_.size()));
  if (is_new) wheres_.push_back(where);
  last_where_ = key;
  last_where_id_ = found->second;
  return found->second;
}

void RaceDetector::add_reader(Cell& cell, const Accessor& accessor, uint64_t packed, uint32_t where) {
  if ((cell.read & kManyReaders) == 0) {
    const Epoch last = epoch_of(cell.read);
    if (last.clock == 0 || last.agent == accessor.epoch.agent || accessor.knowledge->seen.knows(last)) {
      cell.read = packed;
      cell.read_where = where;
      return;
    }
    if (free_readers_.empty()) {
      free_readers_.push_back(static_cast<uint32_t>(readers_.size()));
      readers_.emplace_back();
    }
    readers_[free_readers_.back()] = {{cell.read, cell.read_where}};
    cell.read = kManyReaders | free_readers_.back();
    free_readers_.pop_back();
  }
  std::vector<Reader>& readers = readers_[static_cast<uint32_t>(cell.read)];
  const auto same = std::find_if(readers.begin(), readers.end(), [&](const Reader& reader) {
    return epoch_of(reader.epoch).agent == accessor.epoch.agent;
  });
  if (same != readers.end()) {
    *same = {packed, where};
  } else if (readers.size() < kMaxReaders) {
    readers.push_back({packed, where});
  } else {
    readers[accessor.epoch.agent % kMaxReaders] = {packed, where};
  }
}

void RaceDetector::read_cell(Cell& cell, const void* address, const Accessor& accessor) {
  const uint64_t packed = pack(accessor.epoch, accessor.strength, accessor.is_async);
  if (cell.read == packed) return;
  const Verdict verdict = judge(cell.write, true, address, accessor);
  if (verdict != Verdict::ordered) {
    note_race(verdict, cell.write, cell.write_where, "write", "read", address, accessor);
  }
  add_reader(cell, accessor, packed, where_id(*accessor.where));
}

void RaceDetector::write_cell(Cell& cell, const void* address, const Accessor& accessor) {
  const uint64_t packed = pack(accessor.epoch, accessor.strength, accessor.is_async);
  Verdict verdict = judge(cell.write, true, address, accessor);
  if (verdict != Verdict::ordered) {
    note_race(verdict, cell.write, cell.write_where, "write", "write", address, accessor);
  }
  if ((cell.read & kManyReaders) != 0) {
    std::vector<Reader>& readers = readers_[static_cast<uint32_t>(cell.read)];
    for (const Reader& reader : readers) {
      verdict = judge(reader.epoch, false, address, accessor);
      if (verdict != Verdict::ordered) {
        note_race(verdict, reader.epoch, reader.where, "read", "write", address, accessor);
      }
    }
    readers.clear();
    free_readers_.push_back(static_cast<uint32_t>(cell.read));
  } else if (cell.read != 0) {
    verdict = judge(cell.read, false, address, accessor);
    if (verdict != Verdict::ordered) {
      note_race(verdict, cell.read, cell.read_where, "read", "write", address, accessor);
    }
  }
  cell = {packed, 0, where_id(*accessor.where), 0};
}

void RaceDetector::on_read(Lane& lane, const void* address, uint32_t num_bytes, const AccessKind& kind,
                           const Where& where) {
  if (!enabled_) return;
  const Accessor accessor{&lane, {lane.id, lane.clock}, &lane.knowledge, strength_of(kind), false, &where};
  for_each_cell(address, num_bytes, [&](Cell& cell, const void* at) { read_cell(cell, at, accessor); });
}

void RaceDetector::on_write(Lane& lane, const void* address, uint32_t num_bytes, const AccessKind& kind,
                            const Where& where) {
  if (!enabled_) return;
  const Accessor accessor{&lane, {lane.id, lane.clock}, &lane.knowledge, strength_of(kind), false, &where};
  for_each_cell(address, num_bytes, [&](Cell& cell, const void* at) { write_cell(cell, at, accessor); });
}

void RaceDetector::on_copy_read(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                                uint32_t num_bytes, const Where& where) {
  if (!enabled_) return;
  const Accessor accessor{&issuer, epoch, &knowledge, 0, true, &where};
  for_each_cell(address, num_bytes, [&](Cell& cell, const void* at) { read_cell(cell, at, accessor); });
}

void RaceDetector::on_copy_write(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                                 uint32_t num_bytes, const Where& where) {
  if (!enabled_) return;
  const Accessor accessor{&issuer, epoch, &knowledge, 0, true, &where};
  for_each_cell(address, num_bytes, [&](Cell& cell, const void* at) { write_cell(cell, at, accessor); });
}

void RaceDetector::on_copy_reduce(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                                  uint32_t num_bytes, const Where& where) {
  if (!enabled_) return;
  const Accessor accessor{&issuer, epoch, &knowledge, 1 + static_cast<uint32_t>(ptx::Scope::gpu), true, &where};
  for_each_cell(address, num_bytes, [&](Cell& cell, const void* at) { write_cell(cell, at, accessor); });
}

}  // namespace megamoe::emu
