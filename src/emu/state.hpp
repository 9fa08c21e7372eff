#pragma once

// What exists while kernels run: lanes in warps in blocks in clusters in grids. Plain data; the verbs are in scheduler,
// warp, barriers, mbarrier, memory and async_copy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda/ptx/scope.hpp"
#include "emu/fiber.hpp"
#include "emu/findings.hpp"
#include "emu/machine.hpp"
#include "emu/vector_clock.hpp"

namespace megamoe::emu {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kWarpgroupWarps = 4;
inline constexpr uint32_t kWarpgroupLanes = 128;
inline constexpr uint32_t kNumNamedBarriers = 16;

struct Block;
struct Cluster;
struct Grid;
struct Warp;
struct MmaQueue;

enum class LaneState : uint8_t {
  ready,
  running,
  blocked,  ///< until an event makes it ready
  parked,   ///< polls: also made ready when everything else waits, to look at the clock
  exited,
};

enum class WaitKind : uint8_t {
  nothing,
  warp_collective,
  warpgroup_collective,
  named_barrier,
  cluster_barrier,
  mbarrier,
  memory,
  sleep,
  bulk_group,
  registers,
  earlier_grid,
};

/// What a lane waits for, in numbers whose meaning depends on `kind`; text is made only when it is needed.
struct Wait {
  WaitKind kind = WaitKind::nothing;
  Where where;
  const void* object = nullptr;
  uint64_t wanted = 0;
};

/// Addresses that a lane looks at over and over without doing anything else: it is spinning.
struct PollSet {
  struct Entry {
    const void* address;
    uint32_t num_bytes;
    uint64_t seen;
  };
  std::array<Entry, 8> entries;
  uint32_t num_entries = 0;
  uint32_t num_repeats = 0;
};

/// Bulk copies out of shared memory that a lane has issued: groups in order of their commit.
struct BulkGroups {
  std::vector<uint32_t> num_unread;      ///< per group: copies that still read shared memory; the last group is open
  std::vector<uint32_t> num_unfinished;  ///< per group: copies whose writes have not all happened
  uint32_t num_groups_read = 0;          ///< leading groups that a wait has found read, and finished
  uint32_t num_groups_finished = 0;
  uint32_t read_agent = 0;   ///< clock indices that stand for the copies' reads and writes; 0 before the
  uint32_t write_agent = 0;  ///< first copy. Group i has clock i + 1.
};

/// One GPU thread.
struct Lane {
  Context context;
  Warp* warp = nullptr;
  Block* block = nullptr;
  uint32_t lane_idx = 0;
  uint32_t thread_idx = 0;
  uint32_t id = 0;  ///< dense over the run; indexes vector clocks
  LaneState state = LaneState::ready;
  Wait wait;
  uint32_t parked_position = 0;
  uint64_t result = 0;  ///< of the collective or wait that just ended
  PollSet polls;
  BulkGroups bulk;
  uint32_t cluster_phase = 0;      ///< cluster barriers that this lane has arrived at
  bool waits_for_cluster = false;  ///< arrived and not yet waited
  // The rest is used when races are looked for.
  uint32_t clock = 1;          ///< this lane's own entry, raised after everything that publishes it
  Knowledge knowledge;         ///< what is ordered before this lane's next access
  Knowledge at_release_fence;  ///< what a relaxed write publishes: the knowledge at the last fence, and
  Epoch release_fence;         ///< this lane's epoch then; clock 0 before the first fence
  ptx::Scope release_fence_scope = ptx::Scope::cta;
};

/// Lanes that have arrived at one warp collective; ends when every lane of `mask` has.
struct WarpCollective {
  uint8_t operation;
  uint32_t mask;
  uint32_t arrived = 0;
  Where where;
  std::array<uint64_t, kWarpLanes> values;
  std::array<uint32_t, kWarpLanes> arguments;
};

struct Warp {
  Block* block = nullptr;
  Lane* lanes = nullptr;  ///< of this warp, kWarpLanes or fewer
  uint32_t warp_idx = 0;
  uint32_t num_lanes = 0;
  uint32_t ready = 0;   ///< bit per lane
  uint32_t exited = 0;  ///< bit per lane; lanes that never existed count as exited
  uint32_t ready_position = 0;
  uint32_t laziness = 0;  ///< the scheduler passes it over this often
  std::vector<WarpCollective> collectives;
};

/// bar.sync / bar.arrive number i of a block.
struct NamedBarrier {
  uint32_t num_expected = 0;  ///< threads; 0 while nobody has arrived in this round
  uint32_t num_arrived = 0;
  Where where;
  std::vector<Lane*> waiting;
  Gathering gathering;
};

/// An mbarrier object: pending arrivals, transaction bytes and phase, exactly as PTX counts them.
struct MBarrier {
  uint32_t num_expected = 0;
  uint32_t num_pending = 0;
  int64_t pending_bytes = 0;  ///< transaction count: expected minus completed; may be negative inside a phase
  uint64_t phase = 0;         ///< complete phases; the parity that waits name is that of the phase they wait for
  Block* block = nullptr;
  Where made_at;
  bool is_visible_to_copies = false;  ///< fence.mbarrier_init or fence.proxy.async came after mbarrier.init
  std::vector<Lane*> waiting;
  uint32_t num_returning = 0;  ///< lanes that were woken by the last completion and have not run since
  Gathering gathering;         ///< of this phase's arrivals
  Knowledge passed;            ///< of the phases before
  uint32_t agent = 0;          ///< stands for the copies that complete here
};

/// All four warps at wgmma or setmaxnreg.
struct WarpgroupCollective {
  const char* name = nullptr;
  uint32_t num_arrived = 0;
  Where where;
  std::array<void*, kWarpgroupLanes> payloads{};
  uint64_t argument = 0;
};

struct Block {
  Grid* grid = nullptr;
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  uint32_t block_idx = 0;
  uint32_t sm = 0;
  uint32_t slot = 0;            ///< of shared memory
  std::byte* shared = nullptr;  ///< first byte of dynamic shared memory
  uint32_t shared_bytes = 0;
  std::unique_ptr<Lane[]> lanes;
  std::unique_ptr<Warp[]> warps;
  uint32_t num_lanes = 0;
  uint32_t num_warps = 0;
  uint32_t num_exited = 0;
  uint32_t num_free_registers = 0;  ///< of the block's share, given back by setmaxnreg.dec
  std::array<NamedBarrier, kNumNamedBarriers> barriers;
  std::vector<WarpgroupCollective> warpgroups;
  std::vector<uint32_t> warpgroup_registers;          ///< per thread
  std::vector<std::shared_ptr<MmaQueue>> mma_queues;  ///< per warpgroup; null until its first wgmma
  std::unordered_map<const void*, std::unique_ptr<MBarrier>> mbarriers;
  uint32_t num_copies = 0;        ///< in flight from or to this block's shared memory
  uint32_t num_proxy_fences = 1;  ///< fence.proxy.async by any lane, counted
  bool triggered = false;         ///< griddepcontrol.launch_dependents
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t num_arrived = 0;
  uint32_t phase = 0;
  uint32_t num_exited = 0;          ///< lanes that will not arrive in this phase
  uint32_t num_arrived_exited = 0;  ///< lanes that arrived in this phase and are gone
  uint32_t num_lanes = 0;
  std::vector<Lane*> waiting;
  Gathering gathering;  ///< of those who arrived in this phase
  Knowledge passed;     ///< of the phase before
};

struct Grid {
  Launch launch;
  std::function<void()> kernel;
  Grid* before = nullptr;  ///< the rank's earlier launch in stream order
  uint32_t index = 0;
  uint32_t next_cluster = 0;
  uint32_t num_blocks_done = 0;
  uint32_t num_triggered = 0;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<Lane*> waiting;  ///< lanes of later grids in griddepcontrol.wait
  Gathering gathering;         ///< of all lanes that have exited

  uint32_t num_placed() const { return next_cluster * launch.num_cluster_blocks; }
  bool done() const { return num_blocks_done == launch.num_blocks; }
};

}  // namespace megamoe::emu
