#pragma once

// The async proxy: bulk and tensor copies. A copy is a list of segments that are moved at a later, seeded moment: a
// copy into shared memory at once, a copy out of it in two steps (read, then write), as wait_group.read and wait_group
// tell them apart.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/ptx/scope.hpp"
#include "emu/findings.hpp"
#include "emu/vector_clock.hpp"

namespace megamoe::emu {

class World;
struct Block;
struct Grid;
struct Lane;
struct MBarrier;

enum class CopyKind : uint8_t {
  load,            ///< into shared memory; completes on mbarriers
  store,           ///< out of shared memory; completes with its bulk group
  reduce_add_f32,  ///< the same, added to what is there
  reduce_add_bf16,
};

/// One contiguous piece of a copy. No source: zeros (tensor elements out of bounds).
struct Segment {
  std::byte* destination;
  const std::byte* source;
  uint32_t num_bytes;
};

struct Copy {
  CopyKind kind = CopyKind::load;
  Lane* issuer = nullptr;
  Where where;
  std::vector<Segment> segments;
  /// Where complete_tx goes, with the bytes that each destination block receives.
  std::vector<void*> mbarriers;
  uint32_t bytes_per_mbarrier = 0;
  uint32_t group = 0;           ///< of the issuer's bulk groups
  std::vector<std::byte> data;  ///< what a store has read
  std::vector<uint8_t> states;  ///< of these bytes
  bool has_read = false;
  Knowledge knowledge;
};

class AsyncCopies {
 public:
  explicit AsyncCopies(World& world) : world_(world) {}

  void begin();
  /// Checks every segment, marks memory as busy and puts the copy under way. Called by the issuing lane.
  void issue(std::unique_ptr<Copy> copy);
  /// One step of one copy, chosen by the seed; false when none is under way.
  bool advance();
  /// The same, as often as this run's seed likes.
  void maybe_advance();
  void drop_all() { copies_.clear(); }
  /// Completes what a grid's lanes left under way when they exited.
  void finish_all_of(const Grid& grid);
  /// Finds copies that still use the shared memory of a block whose last lane has exited.
  void check_block_exit(const Block& block);
  /// " (issued at pull.hpp:12)" for a busy address, or nothing.
  std::string describe_copy_at(const void* address) const;

 private:
  void check(const Copy& copy) const;
  void check_segment(const Copy& copy, const Segment& segment) const;
  void check_proxy(const Copy& copy, const Segment& segment) const;
  void mark_busy(const Copy& copy, const Segment& segment) const;
  void read_source(Copy& copy);
  void finish_load(Copy& copy);
  void finish_store(Copy& copy);
  /// One step of copy `index`.
  void advance_at(size_t index);
  Epoch epoch_of_read(const Copy& copy) const;
  Epoch epoch_of_write(const Copy& copy, const void* destination) const;

  World& world_;
  std::vector<std::unique_ptr<Copy>> copies_;
  uint32_t mean_delay_ = 1;
};

// What layer functions call.

/// cp.async.bulk global -> shared::cluster. `cta_mask` 0: to `destination` alone; else to the same offset in every
/// named block of the cluster, with that block's mbarrier.
void bulk_load(void* destination, const void* source, uint32_t num_bytes, void* mbarrier, uint16_t cta_mask,
               const Where& where);
/// cp.async.bulk and cp.reduce.async.bulk shared::cta -> global.
void bulk_store(CopyKind kind, void* destination, const void* source, uint32_t num_bytes, const Where& where);
/// cp.async.bulk shared::cta -> shared::cluster.
void bulk_push(void* destination, const void* source, uint32_t num_bytes, void* mbarrier, const Where& where);
void bulk_commit_group(const Where& where);
enum class BulkWait : uint8_t { reads, writes };
/// Until at most `num_pending` of this lane's latest groups still read (or: have not written).
void bulk_wait_group(uint32_t num_pending, BulkWait wait, const Where& where);
/// fence.proxy.async.
void fence_proxy_async(ptx::ProxySpace space, const Where& where);
/// fence.mbarrier_init.
void fence_mbarrier_init(const Where& where);
/// The destinations of a multicast: `address` moved to each block of `cta_mask`.
std::vector<std::byte*> multicast_addresses(const void* address, uint16_t cta_mask, const Where& where);
/// Fails unless the copy engine can complete a copy to `destination` on this mbarrier.
void check_copy_mbarrier(const void* mbarrier, const Block& destination, const Where& where);
/// A copy of the running lane, not yet issued.
std::unique_ptr<Copy> new_copy(CopyKind kind, const Where& where);
/// Puts a store into the lane's open bulk group and issues it.
void issue_in_group(std::unique_ptr<Copy> copy);

}  // namespace megamoe::emu
