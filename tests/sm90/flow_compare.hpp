#pragma once

// What must be the same, bit for bit, in the workspaces of the kernels and of the CPU backend.

#include "cpu_flow.hpp"
#include "emulated_flow.hpp"

namespace megamoe::sm90::testing {

/// Staged rows, counts, and slot lists as sets. After dispatch. gtest expectations.
void expect_same_lists(const FlowCase& layer, const EmulatedFlow& kernels, const CpuFlow& cpu,
                       const std::vector<RankData>& data, uint32_t rank);

/// The pool: arrivals per block, and rows as sets per expert and source. After dispatch.
void expect_same_pool(const FlowCase& layer, const EmulatedFlow& kernels, const CpuFlow& cpu, uint32_t rank);

/// Whatever counts up during a call is zero again. After combine.
void expect_reset(const FlowCase& layer, const EmulatedFlow& kernels, uint32_t rank);

}  // namespace megamoe::sm90::testing
