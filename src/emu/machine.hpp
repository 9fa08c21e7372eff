#pragma once

// The emulated machine: ranks with memory and SMs, on which kernels written for src/cuda's layer run as fibers.
//
//   Result<emu::Machine> machine = emu::Machine::create({.seed = 7, .num_ranks = 2});
//   float* x = machine->allocate<float>(0, 1024);
//   machine->write(x, values.data(), 1024 * sizeof(float));
//   MM_RETURN_IF_ERROR(machine->launch({.rank = 0, .num_blocks = 4, .num_threads = 128}, [=] { kernel(x); }));
//   const emu::Report report = machine->run();   // report.clean(), report.to_string()
//
// One machine runs on one operating-system thread at a time; different machines may run on different threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "emu/findings.hpp"
#include "megamoe/status.hpp"

namespace megamoe::emu {

class World;

/// Whether unordered accesses are looked for; costs about a factor of three and much memory.
enum class Races : uint8_t { ignore, find };
/// Whether ordinary and relaxed writes to global memory may arrive late, until a release orders them.
enum class Stores : uint8_t { immediate, delayed };
/// What happens when every lane waits: a finding at once, or the clock jumps, so that bounded waits run out.
enum class Stall : uint8_t { is_deadlock, advances_clock };

struct Options {
  uint64_t seed = 1;
  uint32_t num_ranks = 1;
  uint32_t num_sms = 8;  ///< of each rank; 64K registers, 2048 threads, 228 KiB of shared memory each
  Races races = Races::ignore;
  Stores stores = Stores::immediate;
  Stall stall = Stall::is_deadlock;
  uint32_t steps_per_switch = 0;       ///< mean lane-steps between forced switches; 0: the seed chooses
  uint64_t max_steps = 4'000'000'000;  ///< a run that takes more ends with a step_limit finding
  uint64_t max_clock_ns =
      3'600'000'000'000;       ///< with advances_clock: when waiting has lasted this long, it is a deadlock
  uint32_t max_findings = 16;  ///< later ones are dropped; equal kind and line counts once
  size_t memory_bytes = size_t{512} << 20;  ///< address space for all ranks' global memory
  size_t stack_bytes = size_t{64} << 10;    ///< of one lane
};

/// How a launch follows the same rank's launch before it.
enum class LaunchOrder : uint8_t {
  stream,        ///< starts when the earlier one has ended
  programmatic,  ///< starts when all its blocks called launch_dependents (or ended); griddepcontrol.wait orders the
                 ///< rest
  concurrent,    ///< at any time: another stream
};
/// Whether all blocks must be resident at once.
enum class Residency : uint8_t { any, cooperative };

struct Launch {
  uint32_t rank = 0;
  uint32_t num_blocks = 1;
  uint32_t num_threads = 32;          ///< per block
  uint32_t num_cluster_blocks = 1;    ///< blocks per cluster
  uint32_t shared_bytes = 0;          ///< dynamic shared memory per block, at most kMaxSharedBytes
  uint32_t registers_per_thread = 0;  ///< as compiled; 0: what 64K registers allow, at most 255
  LaunchOrder order = LaunchOrder::stream;
  Residency residency = Residency::any;
};

inline constexpr uint32_t kMaxSharedBytes = 227 * 1024;

class Machine {
 public:
  static Result<Machine> create(const Options& options);
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;
  ~Machine();

  /// Global memory of `rank`, aligned to 256 bytes and unwritten; nullptr when Options::memory_bytes are used up. Lives
  /// as long as the machine.
  std::byte* allocate_bytes(uint32_t rank, size_t num_bytes);
  template <class T>
  T* allocate(uint32_t rank, size_t count) {
    return reinterpret_cast<T*>(allocate_bytes(rank, count * sizeof(T)));
  }

  /// Host writes between runs: they count as written. Reading needs no call: the pointers are the host's too.
  void write(void* destination, const void* source, size_t num_bytes);
  void fill(void* destination, uint8_t value, size_t num_bytes);
  /// Makes memory count as never written again, to find a kernel that relies on what an earlier run left.
  void forget(void* destination, size_t num_bytes);
  /// Whether all of these bytes were written, by host or kernel.
  bool is_written(const void* address, size_t num_bytes) const;

  /// Queues a kernel for the next run(). Launches of different ranks run concurrently, those of one rank by `order`.
  /// Fails when the launch breaks a limit of the hardware.
  Status launch(const Launch& launch, std::function<void()> kernel);

  /// Runs everything queued to its end, or to the first finding after which nothing sensible can happen.
  Report run();
  /// The same with another seed: other interleavings from the same memory.
  Report run(uint64_t seed);

 private:
  explicit Machine(std::unique_ptr<World> world);

  std::unique_ptr<World> world_;
};

}  // namespace megamoe::emu
