#pragma once

// What an emulated run found wrong, as values. Nothing here prints.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emu/where.hpp"

namespace megamoe::emu {

enum class FindingKind : uint8_t {
  deadlock,          ///< nobody can run; the text says what each waiter waits for
  unwritten_read,    ///< read of shared or global memory that nobody has written
  out_of_bounds,     ///< access or copy outside every allocation, or to a block's memory after its exit
  misaligned,        ///< access or copy whose address or size breaks the instruction's alignment
  write_write_race,  ///< two writes that nothing orders
  read_write_race,   ///< a read and a write that nothing orders
  arrival_count,     ///< more arrivals at a barrier phase than it was made for, or transaction bytes out of range
  barrier_misuse,  ///< mbarrier used before init, initialised twice or accessed as data; named barrier counts disagree
  missed_phase,    ///< an mbarrier ran a phase ahead of somebody who still waits for the one before
  missing_proxy_fence,   ///< the async proxy meets generic writes without fence.proxy.async between them
  copy_in_flight,        ///< memory reused, or its block exits, while an asynchronous copy still works on it
  divergent_collective,  ///< lanes of one collective disagree on it, or a named lane has exited
  mma_order,             ///< wgmma without its fence or wait, or registers touched while it is in flight
  registers,             ///< setmaxnreg asks for more registers than the block has, or out of line
  invalid_copy,          ///< arguments that the copy instruction or tensor map forbids
  launch,                ///< a launch that the machine cannot hold, or whose blocks cannot be resident together
  kernel_exception,      ///< the kernel's code threw a C++ exception
  step_limit,            ///< the run took more steps than Options::max_steps
};

/// "deadlock", "unwritten_read", ...
std::string_view to_string(FindingKind kind);

/// One fault. `rank` to `lane` name the GPU thread that met it; a launch finding has only a rank.
struct Finding {
  FindingKind kind = FindingKind::deadlock;
  uint64_t seed = 0;
  uint32_t rank = 0;
  uint32_t block = 0;
  uint32_t warp = 0;
  uint32_t lane = 0;
  std::string file;
  uint32_t line = 0;
  std::string text;

  /// "seed 7, rank 0, block 1, warp 2, lane 3, pull.hpp:41: deadlock: ...".
  std::string to_string() const;
};

/// What one run did and found.
struct Report {
  uint64_t seed = 0;
  uint64_t num_steps = 0;     ///< lane-steps: layer calls by single lanes
  uint64_t num_switches = 0;  ///< times that the scheduler let another lane run
  std::vector<Finding> findings;

  bool clean() const { return findings.empty(); }
  bool found(FindingKind kind) const;
  /// One finding a line; "clean" when there is none.
  std::string to_string() const;
};

/// "pull.hpp:41": the last part of the file's name.
std::string short_location(const Where& where);

}  // namespace megamoe::emu
