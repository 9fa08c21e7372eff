#pragma once

// The operations on mbarrier objects; struct MBarrier stands in state.hpp.

#include <cstdint>

#include "cuda/ptx/scope.hpp"
#include "emu/findings.hpp"
#include "emu/state.hpp"

namespace megamoe::emu {

void mbarrier_init(void* address, uint32_t num_arrivals, const Where& where);
void mbarrier_inval(void* address, const Where& where);
/// `space`: a remote mbarrier of the cluster may be named only by the cluster forms.
enum class MBarrierSpace : uint8_t { own_block, cluster };
/// arrive with `count`, after adding `expected_bytes` to the transaction count.
void mbarrier_arrive(void* address, uint32_t count, uint32_t expected_bytes, ptx::Order order, MBarrierSpace space,
                     const Where& where);
void mbarrier_expect_tx(void* address, uint32_t expected_bytes, MBarrierSpace space, const Where& where);
/// Whether the phase of this parity is complete. try_wait sleeps first; both may say no at any time.
bool mbarrier_try_wait(void* address, uint32_t parity, const Where& where);
bool mbarrier_test_wait(void* address, uint32_t parity, const Where& where);

/// complete_tx of an asynchronous copy.
void mbarrier_complete(void* address, uint32_t num_bytes, const Lane& issuer, const Where& where);
/// The object at `address`; fails when there is none.
MBarrier& mbarrier_at(const void* address, const Where& where);

}  // namespace megamoe::emu
