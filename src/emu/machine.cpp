#include "emu/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/world.hpp"
#include "host/errors.hpp"

namespace megamoe::emu {

namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxClusterBlocks = 16;
constexpr uint32_t kNumRegisters = 65536;
constexpr uint32_t kMaxRegistersPerThread = 255;

uint32_t registers_allowed(uint32_t num_threads) {
  return std::min(kMaxRegistersPerThread, kNumRegisters / num_threads / 8 * 8);
}

Status check_launch(const Options& options, const Launch& launch) {
  if (launch.rank >= options.num_ranks) {
    return invalid_argument("a launch's rank must be below Options::num_ranks", launch.rank, "create more ranks");
  }
  if (launch.num_threads == 0 || launch.num_threads > kMaxThreads) {
    return invalid_argument("a block must have 1 to 1024 threads", launch.num_threads, "change num_threads");
  }
  if (launch.num_cluster_blocks == 0 || launch.num_cluster_blocks > kMaxClusterBlocks || launch.num_blocks == 0 ||
      launch.num_blocks % launch.num_cluster_blocks != 0) {
    return invalid_argument("num_blocks must be a positive multiple of a cluster of 1 to 16 blocks",
                            fmt::format("{} blocks in clusters of {}", launch.num_blocks, launch.num_cluster_blocks),
                            "change num_blocks or num_cluster_blocks");
  }
  if (launch.shared_bytes > kMaxSharedBytes) {
    return invalid_argument("a block's shared memory must be at most 232448 bytes", launch.shared_bytes,
                            "use fewer stages or smaller tiles");
  }
  if (launch.registers_per_thread * launch.num_threads > kNumRegisters ||
      launch.registers_per_thread > kMaxRegistersPerThread) {
    return invalid_argument("a block's registers must be at most 65536, and 255 per thread",
                            launch.registers_per_thread * launch.num_threads, "lower registers_per_thread");
  }
  return {};
}

/// Blocks of this launch that one SM holds when nothing else runs there.
uint32_t blocks_per_sm(const Launch& launch) {
  const Sm sm;
  return std::min({sm.num_free_blocks, sm.num_free_threads / launch.num_threads,
                   sm.num_free_registers / (launch.num_threads * launch.registers_per_thread),
                   sm.free_shared_bytes / (launch.shared_bytes + static_cast<uint32_t>(kSystemSharedBytes))});
}

}  // namespace

Machine::Machine(std::unique_ptr<World> world) : world_(std::move(world)) {}
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;
Machine::~Machine() = default;

Result<Machine> Machine::create(const Options& options) {
  if (options.num_ranks == 0 || options.num_sms == 0) {
    return invalid_argument("an emulated machine must have ranks and SMs",
                            fmt::format("{} ranks of {} SMs", options.num_ranks, options.num_sms),
                            "set Options::num_ranks and num_sms");
  }
  if (options.stack_bytes < 16384) {
    return invalid_argument("Options::stack_bytes must be at least 16384", options.stack_bytes, "raise it");
  }
  const uint32_t num_slots = options.num_ranks * options.num_sms * Sm().num_free_blocks;
  Result<std::unique_ptr<Arena>> arena = Arena::create(options.memory_bytes, num_slots);
  if (!arena) return arena.status();
  return Machine(std::make_unique<World>(options, std::move(*arena)));
}

std::byte* Machine::allocate_bytes(uint32_t rank, size_t num_bytes) { return world_->arena->allocate(rank, num_bytes); }

void Machine::write(void* destination, const void* source, size_t num_bytes) {
  std::memcpy(destination, source, num_bytes);
  uint8_t* states = world_->arena->states(destination);
  for (size_t i = 0; i < num_bytes; ++i) states[i] |= kWritten;
}

void Machine::fill(void* destination, uint8_t value, size_t num_bytes) {
  std::memset(destination, value, num_bytes);
  uint8_t* states = world_->arena->states(destination);
  for (size_t i = 0; i < num_bytes; ++i) states[i] |= kWritten;
}

void Machine::forget(void* destination, size_t num_bytes) {
  uint8_t* states = world_->arena->states(destination);
  for (size_t i = 0; i < num_bytes; ++i) states[i] &= static_cast<uint8_t>(~kWritten);
}

bool Machine::is_written(const void* address, size_t num_bytes) const {
  const uint8_t* states = world_->arena->states(address);
  return std::all_of(states, states + num_bytes, [](uint8_t state) { return (state & kWritten) != 0; });
}

Status Machine::launch(const Launch& launch, std::function<void()> kernel) {
  MM_RETURN_IF_ERROR(check_launch(world_->options, launch));
  auto grid = std::make_unique<Grid>();
  grid->launch = launch;
  if (launch.registers_per_thread == 0) grid->launch.registers_per_thread = registers_allowed(launch.num_threads);
  const uint32_t num_resident = blocks_per_sm(grid->launch) * world_->options.num_sms;
  if (launch.residency == Residency::cooperative && launch.num_blocks > num_resident) {
    return error(StatusCode::unsupported, "the blocks of a cooperative launch must be resident at once",
                 fmt::format("{} blocks, of which {} fit", launch.num_blocks, num_resident), "launch fewer blocks");
  }
  if (launch.num_cluster_blocks > num_resident) {
    return error(StatusCode::unsupported, "the blocks of a cluster must be resident at once",
                 fmt::format("{} blocks, of which {} fit", launch.num_cluster_blocks, num_resident),
                 "use smaller clusters");
  }
  grid->kernel = std::move(kernel);
  grid->index = static_cast<uint32_t>(world_->queued.size());
  if (launch.order != LaunchOrder::concurrent) {
    const auto earlier = std::find_if(world_->queued.rbegin(), world_->queued.rend(), [&](const auto& other) {
      return other->launch.rank == launch.rank && other->launch.order != LaunchOrder::concurrent;
    });
    if (earlier != world_->queued.rend()) grid->before = earlier->get();
  }
  world_->queued.push_back(std::move(grid));
  return {};
}

Report Machine::run() { return world_->run(); }

Report Machine::run(uint64_t seed) {
  world_->options.seed = seed;
  return world_->run();
}

}  // namespace megamoe::emu
