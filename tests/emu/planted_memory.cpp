// Accesses to memory that is not there, not written, or not aligned.

#include <stdexcept>

#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "planted_faults.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Order;
using ptx::Scope;

uint32_t* shared_words() { return reinterpret_cast<uint32_t*>(simt::dynamic_shared()); }

void shared_word_never_written(const Buffers&, uint32_t, Version version) {
  const uint32_t last = version == Version::planted ? 31 : 32;
  if (simt::thread_idx() < last) simt::store(shared_words() + simt::thread_idx(), 1U);
  simt::syncwarp();
  (void)simt::load(shared_words() + 31);
}

void global_word_never_written(const Buffers& buffers, uint32_t rank, Version version) {
  (void)simt::load((version == Version::planted ? buffers.blank : buffers.data)[rank] + simt::thread_idx());
}

void half_of_a_wide_load_never_written(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* words = buffers.blank[rank] + 4 * simt::thread_idx();
  for (uint32_t i = 0; i < (version == Version::planted ? 3U : 4U); ++i) simt::store(words + i, i);
  (void)simt::load(reinterpret_cast<const simt::Vec4*>(words));
}

void counter_never_reset(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* counter = version == Version::planted ? buffers.blank[rank] : buffers.flags[rank];
  ptx::red_add<Order::relaxed, Scope::gpu>(counter, 1U);
}

void store_beyond_an_allocation(const Buffers& buffers, uint32_t rank, Version version) {
  const uint32_t idx = kNumWords - 32 + simt::thread_idx() + (version == Version::planted ? 1 : 0);
  simt::store(buffers.data[rank] + idx, 1U);
}

void load_beyond_shared_memory(const Buffers&, uint32_t, Version version) {
  const uint32_t idx = version == Version::planted ? 1024 : 1023;
  if (simt::thread_idx() != 0) return;
  if (version == Version::corrected) simt::store(shared_words() + idx, 1U);
  (void)simt::load(shared_words() + idx);
}

void pointer_to_a_local_variable(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t local = 0;
  simt::store(version == Version::planted ? &local : buffers.data[rank] + simt::thread_idx(), 1U);
}

void scoped_store_to_shared_memory(const Buffers& buffers, uint32_t rank, Version version) {
  uint32_t* word = version == Version::planted ? shared_words() : buffers.data[rank];
  if (simt::thread_idx() == 0) ptx::st_release<Scope::gpu>(word, 1U);
}

/// The other block may not have started, or may be gone.
void neighbour_exits_before_it_is_read(const Buffers&, uint32_t, Version version) {
  if (simt::thread_idx() == 0) simt::store(shared_words(), simt::cluster_block_idx());
  simt::cluster_arrive();
  simt::cluster_wait();
  if (simt::cluster_block_idx() == 0 && simt::thread_idx() == 0) {
    simt::nanosleep(1000);
    (void)simt::load(simt::map_to_block(shared_words(), 1));
  }
  if (version == Version::planted) return;
  simt::cluster_arrive();
  simt::cluster_wait();
}

void word_at_an_odd_address(const Buffers& buffers, uint32_t rank, Version version) {
  const uint32_t* words = buffers.data[rank] + (version == Version::planted ? 1 : 2);
  (void)simt::load(reinterpret_cast<const uint64_t*>(words));
}

void exception_in_a_kernel(const Buffers&, uint32_t, Version version) {
  if (version == Version::planted && simt::thread_idx() == 3) throw std::runtime_error("no such token");
}

}  // namespace

std::vector<Fault> memory_faults() {
  const Launch one_warp{.num_threads = 32, .shared_bytes = 4096};
  const Launch cluster{.num_blocks = 2, .num_threads = 32, .num_cluster_blocks = 2, .shared_bytes = 4096};
  using Kind = FindingKind;
  return {
      {"shared_word_never_written", Kind::unwritten_read, "simt::load(shared_words() + 31)", Shows::always,
       shared_word_never_written, one_warp},
      {"global_word_never_written", Kind::unwritten_read, "simt::load(", Shows::always, global_word_never_written,
       one_warp},
      {"half_of_a_wide_load_never_written", Kind::unwritten_read, "const simt::Vec4*>(words)", Shows::always,
       half_of_a_wide_load_never_written, one_warp},
      {"counter_never_reset", Kind::unwritten_read, "red_add<Order::relaxed", Shows::always, counter_never_reset,
       one_warp},
      {"store_beyond_an_allocation", Kind::out_of_bounds, "buffers.data[rank] + idx, 1U", Shows::always,
       store_beyond_an_allocation, one_warp},
      {"load_beyond_shared_memory", Kind::out_of_bounds, "simt::load(shared_words() + idx)", Shows::always,
       load_beyond_shared_memory, one_warp},
      {"pointer_to_a_local_variable", Kind::out_of_bounds, "&local", Shows::always, pointer_to_a_local_variable,
       one_warp},
      {"scoped_store_to_shared_memory", Kind::out_of_bounds, "st_release<Scope::gpu>(word", Shows::always,
       scoped_store_to_shared_memory, one_warp},
      {"neighbour_exits_before_it_is_read", Kind::out_of_bounds, "map_to_block(shared_words(), 1)", Shows::sometimes,
       neighbour_exits_before_it_is_read, cluster},
      {"word_at_an_odd_address", Kind::misaligned, "const uint64_t*>(words)", Shows::always, word_at_an_odd_address,
       one_warp},
      {"exception_in_a_kernel", Kind::kernel_exception, "", Shows::always, exception_in_a_kernel, one_warp},
  };
}

}  // namespace megamoe::emu::testing
