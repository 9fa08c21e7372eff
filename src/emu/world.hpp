#pragma once

// Everything that one machine holds, and the way from layer code to it: world() and self().

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emu/arena.hpp"
#include "emu/async_copy.hpp"
#include "emu/findings.hpp"
#include "emu/machine.hpp"
#include "emu/races.hpp"
#include "emu/random.hpp"
#include "emu/scheduler.hpp"
#include "emu/state.hpp"
#include "emu/store_buffer.hpp"

namespace megamoe::emu {

/// One SM of a rank, as far as it limits residency.
struct Sm {
  uint32_t num_free_threads = 2048;
  uint32_t num_free_registers = 65536;
  uint32_t num_free_blocks = 32;
  uint32_t free_shared_bytes = 228 * 1024;
};

class World {
 public:
  World(const Options& machine_options, std::unique_ptr<Arena> machine_arena);

  Options options;
  std::unique_ptr<Arena> arena;
  Random random;
  Scheduler scheduler;
  AsyncCopies copies;
  RaceDetector races;
  StoreBuffers stores;
  std::vector<std::unique_ptr<Grid>> queued;  ///< by launch(), run by the next run()
  std::vector<std::unique_ptr<Grid>> grids;   ///< of the present run
  Report report;

  // The next three are read at every access.
  bool watches_accesses = false;  ///< races are looked for or stores are delayed
  bool has_mma = false;           ///< some wgmma has been issued: accumulators may be in flight
  uint32_t countdown = 1;         ///< lane-steps until the running lane must let others run
  uint64_t num_steps = 0;         ///< counted when a countdown ends
  uint64_t clock_ns = 0;          ///< virtual time besides the steps
  uint64_t version = 0;           ///< raised by everything that can let a poll succeed

  /// Places blocks of started grids on SMs as far as they fit. Called at the start and whenever a block ends.
  void place_blocks();
  /// The rest of a lane's life after its kernel returned.
  void lane_exited(Lane& lane);
  Block* block_of_slot(uint32_t slot) const { return slots_[slot]; }
  /// The block whose shared memory holds `address`; nullptr for global memory.
  Block* owner_of(const void* address) const {
    return arena->is_slot(address) ? slots_[arena->slot_of(address)] : nullptr;
  }
  uint64_t now_ns() const;
  /// A clock index for a stream of asynchronous copies.
  uint32_t new_agent() { return num_agents_++; }
  Report run();

  /// Notes a finding of `lane` (or of the machine itself, with nullptr) and goes on.
  void note(FindingKind kind, const Lane* lane, const Where& where, std::string text);
  /// Notes a finding of the running lane and ends the run: nothing sensible can follow.
  [[noreturn]] void fail(FindingKind kind, const Where& where, std::string text);

 private:
  bool grid_may_start(const Grid& grid) const;
  bool place_cluster(Grid& grid);
  void start_block(Grid& grid, Cluster& cluster, uint32_t block_idx, uint32_t sm, uint32_t slot);
  void block_exited(Block& block);
  void check_residency(const Grid& grid);
  void begin();
  void end();

  std::vector<std::vector<Sm>> sms_;  // [rank][sm]
  std::vector<Block*> slots_;
  std::vector<uint32_t> free_slots_;
  uint32_t num_lane_ids_ = 0;
  uint32_t num_agents_ = 0;
};

namespace detail {
constinit inline thread_local World* current_world = nullptr;
constinit inline thread_local Lane* current_lane = nullptr;
}  // namespace detail

/// The machine that runs on this operating-system thread. Only within a kernel.
inline World& world() { return *detail::current_world; }
/// The lane that runs. Only within a kernel.
inline Lane& self() { return *detail::current_lane; }

/// "rank 0 block 1 warp 2 lane 3".
std::string name_of(const Lane& lane);

}  // namespace megamoe::emu
