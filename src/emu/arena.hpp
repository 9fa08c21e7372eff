#pragma once

// One range of addresses that holds every rank's global memory and every block's shared memory, with a shadow beside
// it: one state byte a byte, one stamp every 16 bytes, and room for the race detector.
//
// Shared memory stands in slots of 256 KiB, so that a generic pointer tells its block, and the low 18 bits of a pointer
// are what the hardware calls the shared address (with the KiB that the system keeps at the front).

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::emu {

/// Bits of a state byte.
inline constexpr uint8_t kAllocated = 1;
inline constexpr uint8_t kWritten = 2;
inline constexpr uint8_t kShared = 4;
inline constexpr uint8_t kMBarrier = 8;
inline constexpr uint8_t kCopyWrites = 16;  ///< an asynchronous copy in flight writes here
inline constexpr uint8_t kCopyReads = 32;   ///< an asynchronous copy in flight reads here

inline constexpr size_t kSlotBytes = size_t{256} << 10;
inline constexpr size_t kSystemSharedBytes = 1024;
inline constexpr size_t kStampBytes = 16;
inline constexpr size_t kCellBytes = 4;  ///< granule of the race detector

/// Who and when, of the last access to a granule. Epochs with clock 0 mean nobody.
struct Cell {
  uint64_t write = 0;
  uint64_t read = 0;
  uint32_t write_where = 0;
  uint32_t read_where = 0;
};

/// An allocation of global memory, as the host made it.
struct Allocation {
  uint32_t rank;
  size_t num_bytes;
};

class Arena {
 public:
  /// `num_slots` blocks can be resident at once.
  static Result<std::unique_ptr<Arena>> create(size_t memory_bytes, uint32_t num_slots);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// 256-byte aligned, unwritten; nullptr when no room is left.
  std::byte* allocate(uint32_t rank, size_t num_bytes);
  /// Dynamic shared memory of a new block in `slot`: unwritten.
  std::byte* open_slot(uint32_t slot, uint32_t num_bytes);
  void close_slot(uint32_t slot);

  bool contains(const void* address) const { return offset(address) < total_bytes_; }
  uint8_t* states(const void* address) { return states_ + offset(address); }
  uint32_t& stamp(const void* address) { return stamps_[offset(address) / kStampBytes]; }
  Cell* cells(const void* address) { return cells_ + offset(address) / kCellBytes; }
  size_t offset(const void* address) const {
    return static_cast<size_t>(static_cast<const std::byte*>(address) - base_);
  }
  bool is_slot(const void* address) const { return offset(address) < slots_bytes_; }
  uint32_t slot_of(const void* address) const { return static_cast<uint32_t>(offset(address) / kSlotBytes); }
  /// The allocation that holds, or stands next below, `address`; {nullptr, {}} when there is none.
  std::pair<const std::byte*, Allocation> allocation_below(const void* address) const;

  /// Forgets every recorded access: all of it happened before whatever comes now.
  void clear_cells();

 private:
  Arena() = default;
  bool open_pages(size_t first, size_t num_bytes);

  std::byte* base_ = nullptr;
  uint8_t* states_ = nullptr;
  uint32_t* stamps_ = nullptr;
  Cell* cells_ = nullptr;
  size_t total_bytes_ = 0;
  size_t slots_bytes_ = 0;
  size_t next_ = 0;
  size_t opened_ = 0;  ///< bytes from slots_bytes_ on whose pages are there
  std::vector<uint32_t> slot_bytes_;
  std::map<size_t, Allocation> allocations_;
};

}  // namespace megamoe::emu
