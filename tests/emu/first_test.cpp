#include <gtest/gtest.h>
#include "cuda/ptx/atomic.hpp"
#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/prefetch.hpp"
#include "cuda/ptx/scoped.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/clock.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/grid.hpp"
#include "cuda/simt/index.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "emu/machine.hpp"
using namespace megamoe;
TEST(First, Runs) {
  auto machine = emu::Machine::create({.seed = 3, .races = emu::Races::find});
  ASSERT_TRUE(machine.ok());
  uint32_t* x = machine->allocate<uint32_t>(0, 256);
  machine->fill(x, 0, 1024);
  ASSERT_TRUE(machine->launch({.num_blocks = 2, .num_threads = 128, .shared_bytes = 4096}, [=] {
    uint32_t* sh = reinterpret_cast<uint32_t*>(simt::dynamic_shared());
    simt::store(sh + simt::thread_idx(), simt::thread_idx());
    simt::sync_threads();
    uint32_t v = simt::load(sh + (simt::thread_idx() ^ 5));
    uint32_t s = simt::reduce_add(simt::kAllLanes, v);
    ptx::red_add<ptx::Order::relaxed, ptx::Scope::gpu>(x, s);
  }).ok());
  auto report = machine->run();
  EXPECT_TRUE(report.clean()) << report.to_string();
  EXPECT_EQ(*x, 2 * 32 * (127 * 64));
  printf("%lu steps %lu switches\n", report.num_steps, report.num_switches);
}
