#include "emu/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "host/errors.hpp"

namespace megamoe::emu {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kGuardBytes = 512;       // between allocations: an access beyond the end meets no neighbour
constexpr size_t kOpenBytes = 1U << 20U;  // pages are opened in steps of this

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Address space without memory behind it; nullptr when there is none.
std::byte* reserve(size_t num_bytes, size_t alignment) {
  void* mapped = mmap(nullptr, num_bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(mapped);
  const size_t skipped = (alignment - reinterpret_cast<uintptr_t>(mapped) % alignment) % alignment;
  if (skipped > 0) munmap(first, skipped);
  munmap(first + skipped + num_bytes, alignment - skipped);
  return first + skipped;
}

std::byte* page_of(void* address) {
  return static_cast<std::byte*>(address) - reinterpret_cast<uintptr_t>(address) % kPageBytes;
}

/// Opens the pages under [begin, begin + num_bytes) for reading and writing.
bool open_range(void* begin, size_t num_bytes) {
  std::byte* first = page_of(begin);
  const auto last = static_cast<size_t>(static_cast<std::byte*>(begin) + num_bytes - first);
  return mprotect(first, round_up(last, kPageBytes), PROT_READ | PROT_WRITE) == 0;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(size_t memory_bytes, uint32_t num_slots) {
  std::unique_ptr<Arena> arena(new Arena);
  arena->slots_bytes_ = num_slots * kSlotBytes;
  arena->total_bytes_ = arena->slots_bytes_ + round_up(memory_bytes, kOpenBytes);
  arena->next_ = arena->slots_bytes_;
  arena->opened_ = arena->slots_bytes_;
  arena->slot_bytes_.resize(num_slots);
  const size_t total = arena->total_bytes_;
  arena->base_ = reserve(total, kSlotBytes);
  arena->states_ = reinterpret_cast<uint8_t*>(reserve(total, kPageBytes));
  arena->stamps_ = reinterpret_cast<uint32_t*>(reserve(total / kStampBytes * sizeof(uint32_t), kPageBytes));
  arena->cells_ = reinterpret_cast<Cell*>(reserve(total / kCellBytes * sizeof(Cell), kPageBytes));
  if (arena->base_ == nullptr || arena->states_ == nullptr || arena->stamps_ == nullptr || arena->cells_ == nullptr) {
    return error(StatusCode::out_of_memory, "the emulator's address space must be mapped", total,
                 "lower Options::memory_bytes or raise the limit on virtual memory (ulimit -v)");
  }
  // States of memory that nobody allocated are read too, to find out just that.
  if (!open_range(arena->states_, total)) {
    return error(StatusCode::out_of_memory, "the emulator's shadow memory must be mapped", total,
                 "lower Options::memory_bytes");
  }
  return arena;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, total_bytes_);
  if (states_ != nullptr) munmap(states_, total_bytes_);
  if (stamps_ != nullptr) munmap(stamps_, total_bytes_ / kStampBytes * sizeof(uint32_t));
  if (cells_ != nullptr) munmap(cells_, total_bytes_ / kCellBytes * sizeof(Cell));
}

bool Arena::open_pages(size_t first, size_t num_bytes) {
  return open_range(base_ + first, num_bytes) &&
         open_range(stamps_ + first / kStampBytes, round_up(num_bytes, kStampBytes) / kStampBytes * sizeof(uint32_t)) &&
         open_range(cells_ + first / kCellBytes, round_up(num_bytes, kCellBytes) / kCellBytes * sizeof(Cell));
}

std::byte* Arena::allocate(uint32_t rank, size_t num_bytes) {
  const size_t first = next_;
  const size_t end = first + round_up(num_bytes, 256) + kGuardBytes;
  if (num_bytes > total_bytes_ || end > total_bytes_) return nullptr;
  if (end > opened_) {
    const size_t step = std::min(round_up(end - opened_, kOpenBytes), total_bytes_ - opened_);
    if (!open_pages(opened_, step)) return nullptr;
    opened_ += step;
  }
  next_ = end;
  allocations_[first] = {rank, num_bytes};
  std::memset(states_ + first, kAllocated, num_bytes);
  return base_ + first;
}

std::byte* Arena::open_slot(uint32_t slot, uint32_t num_bytes) {
  const size_t first = slot * kSlotBytes + kSystemSharedBytes;
  if (num_bytes > 0 && !open_pages(first, num_bytes)) return nullptr;
  slot_bytes_[slot] = num_bytes;
  std::memset(states_ + first, kAllocated | kShared, num_bytes);
  if (num_bytes > 0) {
    std::memset(static_cast<void*>(stamps_ + first / kStampBytes), 0, num_bytes / kStampBytes * sizeof(uint32_t));
  }
  return base_ + first;
}

void Arena::close_slot(uint32_t slot) {
  const size_t first = slot * kSlotBytes + kSystemSharedBytes;
  const size_t num_bytes = slot_bytes_[slot];
  std::memset(states_ + first, 0, num_bytes);
  if (num_bytes == 0) return;
  // Another block starts here with no history. Untouched pages stay unmapped, so that this costs little without races.
  std::byte* cells_begin = page_of(cells_ + first / kCellBytes);
  auto* cells_end = reinterpret_cast<std::byte*>(cells_ + (first + num_bytes) / kCellBytes);
  madvise(cells_begin, static_cast<size_t>(cells_end - cells_begin), MADV_DONTNEED);
  slot_bytes_[slot] = 0;
}

std::pair<const std::byte*, Allocation> Arena::allocation_below(const void* address) const {
  const auto above = allocations_.upper_bound(offset(address));
  if (above == allocations_.begin()) return {nullptr, {}};
  const auto found = std::prev(above);
  return {base_ + found->first, found->second};
}

void Arena::clear_cells() {
  const size_t first = slots_bytes_ / kCellBytes * sizeof(Cell) / kPageBytes * kPageBytes;
  const size_t last = opened_ / kCellBytes * sizeof(Cell);
  madvise(reinterpret_cast<std::byte*>(cells_) + first, last - first, MADV_DONTNEED);
}

}  // namespace megamoe::emu
