#pragma once

// Where the stages run: every rank its own blocks and workspace, on the emulated machine or on GPUs.

#include <cstdint>
#include <span>
#include <vector>

#include "check/stages/stage_case.hpp"
#include "cuda/sm90/grids.hpp"
#include "megamoe/status.hpp"

namespace megamoe::stages {

class StageMachine {
 public:
  virtual ~StageMachine() = default;
  /// Writes a call's inputs, [num_ranks]. Outputs and whatever an earlier call left in lists and rows count as never
  /// written.
  virtual Status begin_call(const std::vector<RankData>& data) = 0;
  /// Expert results of one rank, [num_pool_rows, hidden] BF16, for the push that opens combine.
  virtual Status write_results(uint32_t rank, const std::vector<uint16_t>& results) = 0;
  /// Fills a field of one rank with a byte: what gemm1 and gemm2 would have used up.
  virtual Status fill(uint32_t rank, flow::Field field, uint8_t value) = 0;
  /// Runs a kernel on all ranks, `num_blocks` each, to its end. Errors: timeout with the fault record's words; findings
  /// of the emulator.
  virtual Status run(sm90::Kernel kernel, uint32_t num_blocks) = 0;
  /// A rank's workspace as the last run left it, in host memory.
  virtual Result<flow::Workspace> workspace(uint32_t rank) = 0;
  virtual Result<std::vector<uint16_t>> y(uint32_t rank) = 0;                  // [num_tokens, hidden]
  virtual Result<std::vector<uint32_t>> local_expert_rows(uint32_t rank) = 0;  // [routed experts of the rank]
};

/// Runs all calls of a case with data from `seed`: what the stages leave in the workspaces must be, bit for bit, what
/// the CPU backend's stages leave there (rows as sets per expert and source). Ok, or what differs where; internal.
Status run_case(const StageCase& stage_case, uint64_t seed, StageMachine& machine);

}  // namespace megamoe::stages
