#pragma once

// Looks for accesses that nothing orders. FastTrack: each granule of memory remembers the epoch of its last write and
// of the reads since; an access that does not know those epochs races with them. Knowledge travels along barriers,
// mbarrier phases, release/acquire pairs and fences, as far as their scopes reach; a second clock tells what a proxy
// fence covers.

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cuda/ptx/scope.hpp"
#include "emu/arena.hpp"
#include "emu/state.hpp"

namespace megamoe::emu {

class World;
struct AccessKind;

class RaceDetector {
 public:
  explicit RaceDetector(World& world) : world_(world) {}

  bool enabled() const { return enabled_; }
  void begin(bool enabled);
  /// An index of vector clocks for a lane, or with nullptr for a stream of asynchronous copies that `block` issues.
  uint32_t add_agent(const Lane* lane, const Block& block) {
    agents_.push_back({lane, &block});
    return static_cast<uint32_t>(agents_.size() - 1);
  }

  // Accesses by lanes, through the generic proxy.
  void on_read(Lane& lane, const void* address, uint32_t num_bytes, const AccessKind& kind, const Where& where);
  void on_write(Lane& lane, const void* address, uint32_t num_bytes, const AccessKind& kind, const Where& where);
  // Accesses by asynchronous copies. `knowledge` is that of the issuing lane when it issued the copy.
  void on_copy_read(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                    uint32_t num_bytes, const Where& where);
  void on_copy_write(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                     uint32_t num_bytes, const Where& where);
  /// The same for a reduction, which is atomic over the rank.
  void on_copy_reduce(const Lane& issuer, Epoch epoch, const Knowledge& knowledge, const void* address,
                      uint32_t num_bytes, const Where& where);

  // Order between lanes.
  /// What this lane knows, itself included, goes into `gathering`; later accesses of the lane do not.
  void publish(Lane& lane, Gathering& gathering);
  void learn(Lane& lane, const Knowledge& knowledge) {
    if (!lane.knowledge.is_same(knowledge)) lane.knowledge.join(knowledge);
  }
  /// A whole grid has ended: its writes are visible to every proxy.
  void learn_past_grid(Lane& lane, const Knowledge& knowledge);
  void release_store(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope);
  void read_modify_write(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope);
  void acquire(Lane& lane, const void* address, ptx::Order order, ptx::Scope scope);
  void fence(Lane& lane, ptx::Scope scope);
  void proxy_fence(Lane& lane, ptx::ProxySpace space);
  /// The lane's knowledge with its own present epoch, for a copy that it issues.
  Knowledge snapshot(Lane& lane);

 private:
  /// Who accesses, and what is ordered before.
  struct Accessor {
    const Lane* lane;
    Epoch epoch;
    const Knowledge* knowledge;
    uint32_t strength;  ///< 0: weak; else 1 + scope
    bool is_async;
    const Where* where;
  };
  enum class Verdict : uint8_t { ordered, unordered, needs_proxy_fence };
  struct ReleasedEntry {
    ptx::Scope scope;
    const Block* block;
    Gathering gathering;
  };
  using Released = std::vector<ReleasedEntry>;
  struct Reader {
    uint64_t epoch;
    uint32_t where;
  };

  struct Agent {
    const Lane* lane;  ///< nullptr for asynchronous copies
    const Block* block;
  };

  template <class Function>
  void for_each_cell(const void* address, uint32_t num_bytes, Function function);
  std::array<Cell, 4>& split(Cell& cell);
  void read_cell(Cell& cell, const void* address, const Accessor& accessor);
  void write_cell(Cell& cell, const void* address, const Accessor& accessor);
  Verdict judge(uint64_t earlier, bool earlier_writes, const void* address, const Accessor& accessor) const;
  bool scopes_meet(uint64_t earlier, const Accessor& accessor) const;
  void note_race(Verdict verdict, uint64_t earlier, uint32_t earlier_where, const char* earlier_verb, const char* verb,
                 const void* address, const Accessor& accessor);
  uint32_t where_id(const Where& where);
  void add_reader(Cell& cell, const Accessor& accessor, uint64_t packed, uint32_t where);
  static bool reaches(const ReleasedEntry& entry, const Lane& lane, ptx::Scope scope);
  static void add_released(Released& released, const Lane& lane, ptx::Scope scope, const Knowledge& knowledge,
                           Epoch epoch);

  World& world_;
  bool enabled_ = false;
  std::vector<Agent> agents_;
  std::unordered_map<Cell*, std::array<Cell, 4>> split_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<uint32_t> free_readers_;
  std::unordered_map<const void*, Released> released_;
  std::unordered_map<const Lane*, Released> relaxed_;  ///< seen by relaxed reads since the lane's last fence
  std::unordered_map<uint64_t, uint32_t> where_ids_;
  uint64_t last_where_ = 0;  ///< key and id of the latest lookup: many lanes pass the same line
  uint32_t last_where_id_ = 0;
  std::vector<Where> wheres_;
};

}  // namespace megamoe::emu
