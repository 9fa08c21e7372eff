#include "emu/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "emu/barriers.hpp"
#include "emu/mbarrier.hpp"
#include "emu/tensor_core/warpgroup_mma.hpp"
#include "emu/warp.hpp"

namespace megamoe::emu {

namespace {

constexpr uint32_t kSystemSharedPerBlock = 1024;  // of the SM's 228 KiB

bool fits(const Sm& sm, const Launch& launch) {
  return sm.num_free_blocks > 0 && sm.num_free_threads >= launch.num_threads &&
         sm.num_free_registers >= launch.num_threads * launch.registers_per_thread &&
         sm.free_shared_bytes >= launch.shared_bytes + kSystemSharedPerBlock;
}

void occupy(Sm& sm, const Launch& launch) {
  --sm.num_free_blocks;
  sm.num_free_threads -= launch.num_threads;
  sm.num_free_registers -= launch.num_threads * launch.registers_per_thread;
  sm.free_shared_bytes -= launch.shared_bytes + kSystemSharedPerBlock;
}

void vacate(Sm& sm, const Launch& launch) {
  ++sm.num_free_blocks;
  sm.num_free_threads += launch.num_threads;
  sm.num_free_registers += launch.num_threads * launch.registers_per_thread;
  sm.free_shared_bytes += launch.shared_bytes + kSystemSharedPerBlock;
}

}  // namespace

World::World(const Options& machine_options, std::unique_ptr<Arena> machine_arena)
    : options(machine_options),
      arena(std::move(machine_arena)),
      random(machine_options.seed),
      scheduler(*this),
      copies(*this),
      races(*this),
      stores(*this) {
  slots_.resize(size_t{options.num_ranks} * options.num_sms * Sm().num_free_blocks);
}

uint64_t World::now_ns() const { return clock_ns + num_steps + scheduler.last_countdown() - countdown; }

std::string name_of(const Lane& lane) {
  return fmt::format("rank {} block {} warp {} lane {}", lane.block->rank, lane.block->block_idx, lane.warp->warp_idx,
                     lane.lane_idx);
}

void World::note(FindingKind kind, const Lane* lane, const Where& where, std::string text) {
  const bool known = std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
    return finding.kind == kind && finding.line == where.line() && finding.file == where.file_name();
  });
  if (known || report.findings.size() >= options.max_findings) return;
  Finding finding;
  finding.kind = kind;
  finding.seed = report.seed;
  if (lane != nullptr) {
    finding.rank = lane->block->rank;
    finding.block = lane->block->block_idx;
    finding.warp = lane->warp->warp_idx;
    finding.lane = lane->lane_idx;
  }
  finding.file = where.file_name();
  finding.line = where.line();
  finding.text = std::move(text);
  report.findings.push_back(std::move(finding));
}

void World::fail(FindingKind kind, const Where& where, std::string text) {
  note(kind, &self(), where, std::move(text));
  scheduler.stop();
}

bool World::grid_may_start(const Grid& grid) const {
  if (grid.before == nullptr) return true;
  if (grid.launch.order == LaunchOrder::programmatic)
    return grid.before->num_triggered == grid.before->launch.num_blocks;
  return grid.before->done();
}

void World::place_blocks() {
  for (const std::unique_ptr<Grid>& grid : grids) {
    if (!grid_may_start(*grid)) continue;
    while (grid->num_placed() < grid->launch.num_blocks && place_cluster(*grid)) {
    }
    check_residency(*grid);
  }
}

bool World::place_cluster(Grid& grid) {
  const Launch& launch = grid.launch;
  std::vector<Sm>& sms = sms_[launch.rank];
  std::vector<uint32_t> chosen;
  // Blocks go where there is most room, as the hardware spreads them.
  for (uint32_t i = 0; i < launch.num_cluster_blocks; ++i) {
    const auto most_room = std::max_element(sms.begin(), sms.end(), [&](const Sm& a, const Sm& b) {
      return std::pair(fits(a, launch), a.num_free_blocks) < std::pair(fits(b, launch), b.num_free_blocks);
    });
    if (!fits(*most_room, launch)) {
      for (const uint32_t sm : chosen) vacate(sms[sm], launch);
      return false;
    }
    occupy(*most_room, launch);
    chosen.push_back(static_cast<uint32_t>(most_room - sms.begin()));
  }
  // The end of a grid publishes its writes to the grids behind it; to everybody else they may still be late.
  if (grid.before != nullptr && launch.order == LaunchOrder::stream) stores.drain_rank(launch.rank);
  grid.clusters.push_back(std::make_unique<Cluster>());
  Cluster& cluster = *grid.clusters.back();
  cluster.grid = &grid;
  cluster.num_lanes = launch.num_threads * launch.num_cluster_blocks;
  const uint32_t first_block = grid.next_cluster++ * launch.num_cluster_blocks;
  for (uint32_t i = 0; i < launch.num_cluster_blocks; ++i) {
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    start_block(grid, cluster, first_block + i, chosen[i], slot);
  }
  return true;
}

void World::start_block(Grid& grid, Cluster& cluster, uint32_t block_idx, uint32_t sm, uint32_t slot) {
  const Launch& launch = grid.launch;
  cluster.blocks.push_back(std::make_unique<Block>());
  Block& block = *cluster.blocks.back();
  block.grid = &grid;
  block.cluster = &cluster;
  block.rank = launch.rank;
  block.block_idx = block_idx;
  block.sm = sm;
  block.slot = slot;
  block.shared_bytes = launch.shared_bytes;
  block.shared = arena->open_slot(slot, launch.shared_bytes);
  if (block.shared == nullptr) throw std::bad_alloc();
  slots_[slot] = &block;
  block.num_lanes = launch.num_threads;
  block.num_warps = (launch.num_threads + kWarpLanes - 1) / kWarpLanes;
  block.lanes = std::make_unique<Lane[]>(block.num_lanes);
  block.warps = std::make_unique<Warp[]>(block.num_warps);
  block.warpgroups.resize(block.num_warps / kWarpgroupWarps);
  block.warpgroup_registers.assign(block.warpgroups.size(), launch.registers_per_thread);
  for (uint32_t i = 0; i < block.num_warps; ++i) {
    Warp& warp = block.warps[i];
    warp.block = &block;
    warp.lanes = &block.lanes[size_t{i} * kWarpLanes];
    warp.warp_idx = i;
    warp.num_lanes = std::min(kWarpLanes, block.num_lanes - i * kWarpLanes);
    warp.exited = warp.num_lanes == kWarpLanes ? 0 : ~0U << warp.num_lanes;
    warp.laziness = scheduler.draw_laziness();
  }
  for (uint32_t i = 0; i < block.num_lanes; ++i) {
    Lane& lane = block.lanes[i];
    lane.block = &block;
    lane.warp = &block.warps[i / kWarpLanes];
    lane.lane_idx = i % kWarpLanes;
    lane.thread_idx = i;
    if (races.enabled()) {
      lane.id = races.add_agent(&lane, block);
      if (grid.before != nullptr && grid.launch.order == LaunchOrder::stream) {
        races.learn_past_grid(lane, grid.before->gathering.sum());
      }
    }
    scheduler.start(lane);
  }
}

void World::lane_exited(Lane& lane) {
  lane.warp->exited |= 1U << lane.lane_idx;
  ++version;
  check_collectives_at_exit(lane);
  leave_cluster_barrier(lane);
  if (races.enabled()) {
    // What is left of its bulk stores is done before the grid is.
    const auto num_groups = static_cast<uint32_t>(lane.bulk.num_unread.size());
    if (num_groups > 0) lane.knowledge.seen.raise(lane.bulk.write_agent, num_groups);
    races.publish(lane, lane.block->grid->gathering);
  }
  if (++lane.block->num_exited == lane.block->num_lanes) block_exited(*lane.block);
}

void World::block_exited(Block& block) {
  Grid& grid = *block.grid;
  copies.check_block_exit(block);
  if (scheduler.stopped()) return;
  check_mma_exit(block);
  arena->close_slot(block.slot);
  slots_[block.slot] = nullptr;
  free_slots_.push_back(block.slot);
  vacate(sms_[block.rank][block.sm], grid.launch);
  if (!block.triggered) ++grid.num_triggered;
  ++grid.num_blocks_done;
  if (grid.done()) {
    copies.finish_all_of(grid);
    for (Lane* lane : grid.waiting) scheduler.make_ready(*lane);
    grid.waiting.clear();
    if (grid.before != nullptr) grid.gathering.add(grid.before->gathering.sum(), {});
  }
  place_blocks();
}

void World::check_residency(const Grid& grid) {
  if (grid.launch.residency != Residency::cooperative) return;
  const uint32_t num_placed = grid.num_placed();
  if (num_placed == 0 || num_placed == grid.launch.num_blocks) return;
  note(FindingKind::launch, nullptr, Where::current(),
       fmt::format(
           "a cooperative launch must fit on its rank at once (rank {}: {} of {} blocks do); launch fewer blocks",
           grid.launch.rank, num_placed, grid.launch.num_blocks));
  report.findings.back().rank = grid.launch.rank;
  scheduler.request_stop();
}

void World::begin() {
  report = {};
  report.seed = options.seed;
  random = Random(options.seed);
  watches_accesses = options.races == Races::find || options.stores == Stores::delayed;
  has_mma = false;
  num_steps = 0;
  clock_ns = 0;
  version = 0;
  scheduler.begin(options.steps_per_switch);
  countdown = scheduler.last_countdown();
  copies.begin();
  races.begin(options.races == Races::find);
  stores.begin(options.stores == Stores::delayed);
  sms_.assign(options.num_ranks, std::vector<Sm>(options.num_sms));
  free_slots_.clear();
  for (auto slot = static_cast<uint32_t>(slots_.size()); slot > 0; --slot) free_slots_.push_back(slot - 1);
  grids = std::move(queued);
  queued.clear();
}

void World::end() {
  stores.drain_all();
  copies.drop_all();
  for (const std::unique_ptr<Grid>& grid : grids) {
    for (const std::unique_ptr<Cluster>& cluster : grid->clusters) {
      for (const std::unique_ptr<Block>& block : cluster->blocks) {
        for (uint32_t i = 0; i < block->num_lanes; ++i) scheduler.abandon(block->lanes[i]);
        if (slots_[block->slot] != block.get()) continue;
        arena->close_slot(block->slot);
        slots_[block->slot] = nullptr;
      }
    }
  }
  grids.clear();
}

Report World::run() {
  World* const outer_world = std::exchange(detail::current_world, this);
  Lane* const outer_lane = std::exchange(detail::current_lane, nullptr);
  begin();
  try {
    place_blocks();
    scheduler.run();
  } catch (const std::bad_alloc&) {
    note(FindingKind::launch, nullptr, Where::current(),
         "memory for the emulated machine ran out; launch fewer blocks");
  }
  for (const std::unique_ptr<Grid>& grid : grids) {
    if (scheduler.stopped() || grid->done()) continue;
    note(FindingKind::launch, nullptr, Where::current(),
         fmt::format("{} blocks of launch {} never found an SM", grid->launch.num_blocks - grid->num_placed(),
                     grid->index));
  }
  report.num_steps = num_steps + scheduler.last_countdown() - countdown;
  report.num_switches = scheduler.num_switches();
  end();
  detail::current_world = outer_world;
  detail::current_lane = outer_lane;
  return std::move(report);
}

}  // namespace megamoe::emu
