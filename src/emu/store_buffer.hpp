#pragma once

// Writes to global memory that have not arrived yet (Stores::delayed). A write starts at its lane; a barrier or a
// release of cta scope takes it to the block, one of gpu scope to the rank, one of sys scope to memory; chance may take
// it to memory at any time. Whoever shares the place sees the write; everybody else sees memory. Writes of one place to
// one address stay in order, all others may overtake each other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cuda/ptx/scope.hpp"

namespace megamoe::emu {

class World;
struct Block;
struct Lane;

class StoreBuffers {
 public:
  explicit StoreBuffers(World& world) : world_(world) {}

  void begin(bool enabled);
  /// Takes a write of at most 16 bytes; false when it must go to memory at once.
  bool take(Lane& lane, void* destination, const void* source, uint32_t num_bytes);
  /// Lays the writes that `lane` can see over the `num_bytes` that were read from `source`.
  void forward(const Lane& lane, void* value, const void* source, uint32_t num_bytes) const;
  /// A release of this scope by `lane`.
  void order(const Lane& lane, ptx::Scope scope);
  /// Writes that `lane` can see go to memory: before an atomic, and before a copy reads or overwrites.
  void flush_for(const Lane& lane, const void* address, size_t num_bytes);
  /// The oldest write that may go, chosen by the seed; false when there is none.
  bool drain_one();
  void maybe_drain();
  void drain_rank(uint32_t rank);
  void drain_all();

 private:
  enum class Place : uint8_t { lane, block, rank };
  struct Write {
    std::byte* address;
    uint32_t num_bytes;
    Place place;
    const Lane* lane;
    std::array<std::byte, 16> bytes;
  };

  static bool sees(const Lane& lane, const Write& write);
  static uint64_t granule_of(const void* address) { return reinterpret_cast<uintptr_t>(address) / 16; }
  void arrive(size_t index);
  void drain_at(size_t index);

  World& world_;
  bool enabled_ = false;
  uint32_t mean_delay_ = 1;
  std::vector<Write> writes_;  // in the order they were made
  std::unordered_map<uint64_t, uint32_t> granules_;
};

}  // namespace megamoe::emu
