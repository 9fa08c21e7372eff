// wgmma through the kernel layer on the emulated machine: the same bits as the plain model, and every planted fault
// found.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "../emu/doc_section.hpp"
#include "check/random.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/ptx/wgmma_fragment.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "emu/machine.hpp"
#include "emu/tensor_core/dot.hpp"

namespace megamoe {
namespace {

using emu::FindingKind;
using ptx::MatrixPlace;
using ptx::ScaleD;
using ptx::WgmmaSpec;

constexpr WgmmaSpec kSpec{.format = ptx::MmaFormat::e4m3, .n = 24};
constexpr uint32_t kNumSteps = 3;  // of K
constexpr uint32_t kABytes = ptx::kWgmmaRows * 128;
constexpr uint32_t kBBytes = kSpec.n * 128;
constexpr uint32_t kSharedBytes = kABytes + kBBytes;

/// What goes wrong on purpose.
enum class Fault {
  none,
  padding_unwritten,
  no_proxy_fence,
  no_barrier,
  no_fence,
  no_fence_in_second_batch,
  no_wait,
  touches_d_in_flight,
  pins_d_in_flight,
  stores_d_in_flight,
  shuffles_d_in_flight,
  overwrites_operand_in_flight,
  b_beyond_shared_memory,
  lanes_disagree,
  changes_n_in_flight,
};

enum class Operands { shared, a_in_registers };

struct Arguments {
  const uint8_t* a;  // [64, 128] codes
  const uint8_t* b;  // [n, 128] codes
  float* d;          // [num_warpgroups, 64, n]
  Operands operands;
  Fault fault;
};

/// Copies codes into shared memory as rows of 128 bytes with swizzle b128, 16 bytes a lane and turn.
void stage(const uint8_t* source, uint8_t* destination, uint32_t num_bytes) {
  for (uint32_t byte = simt::thread_idx() * 16; byte < num_bytes; byte += simt::num_threads() * 16) {
    const auto chunk = simt::load(reinterpret_cast<const simt::Vec4*>(source + byte));
    simt::store(reinterpret_cast<simt::Vec4*>(destination + ptx::swizzled_offset(ptx::Swizzle::b128, byte)), chunk);
  }
}

MatrixPlace place_at(uint32_t start) {
  return {.start = start, .leading_bytes = 0, .stride_bytes = 1024, .swizzle = ptx::Swizzle::b128};
}

/// K steps of one warpgroup in one group; D += A * B^T.
void multiply(const Arguments& arguments, float (&d)[kSpec.n / 2]) {
  const uint32_t lane = simt::thread_idx() % ptx::kWarpgroupLanes;
  const uint32_t a_start = simt::shared_address(simt::dynamic_shared());
  uint32_t b_start = a_start + kABytes;
  if (arguments.fault == Fault::b_beyond_shared_memory) b_start += 1024;
  if (arguments.fault == Fault::lanes_disagree && lane == 77) b_start += 1024;
  for (uint32_t step = 0; step < kNumSteps; ++step) {
    const ptx::WgmmaDescriptor b = ptx::advance(ptx::encode(place_at(b_start)), 32 * step);
    if (arguments.operands == Operands::shared) {
      const ptx::WgmmaDescriptor a = ptx::advance(ptx::encode(place_at(a_start)), 32 * step);
      ptx::wgmma_mma_async<kSpec>(d, a, b, ScaleD::accumulate);
      continue;
    }
    uint32_t a[4];
    for (uint32_t r = 0; r < 4; ++r) {
      std::memcpy(&a[r], arguments.a + ptx::a_row(lane, r) * 128 + 32 * step + ptx::a_byte(lane, r), 4);
    }
    ptx::wgmma_mma_async<kSpec>(d, a, b, ScaleD::accumulate);
  }
}

void kernel(const Arguments& arguments) {
  uint8_t* shared = simt::dynamic_shared();
  const uint32_t thread_idx = simt::thread_idx();
  const uint32_t lane = thread_idx % ptx::kWarpgroupLanes;
  const Fault fault = arguments.fault;
  const uint32_t num_staged = fault == Fault::padding_unwritten ? kABytes / 8 * 7 : kABytes;
  stage(arguments.a, shared, num_staged);
  stage(arguments.b, shared + kABytes, kBBytes);
  if (fault != Fault::no_proxy_fence) ptx::fence_proxy_async_shared();
  if (fault != Fault::no_barrier) simt::sync_threads();

  float d[kSpec.n / 2];
  for (float& value : d) value = 1.0F;
  if (fault != Fault::no_fence) ptx::wgmma_fence();
  multiply(arguments, d);
  if (fault == Fault::changes_n_in_flight) {
    float narrow[4];
    float(&same)[4] = lane == 5 ? reinterpret_cast<float(&)[4]>(d) : narrow;
    constexpr WgmmaSpec kNarrow{.format = ptx::MmaFormat::e4m3, .n = 8};
    const ptx::WgmmaDescriptor a = ptx::encode(place_at(simt::shared_address(shared)));
    ptx::wgmma_mma_async<kNarrow>(same, a, a, ScaleD::overwrite);
  }
  ptx::wgmma_commit_group();
  if (fault == Fault::touches_d_in_flight && thread_idx == 9) d[3] = 0;
  if (fault == Fault::pins_d_in_flight) ptx::wgmma_pin(d);
  if (fault == Fault::stores_d_in_flight && thread_idx == 9) simt::store(arguments.d, d[3] * -2.0F);
  if (fault == Fault::shuffles_d_in_flight) (void)simt::shfl_xor(simt::kAllLanes, d[3], 1);
  if (fault == Fault::overwrites_operand_in_flight && thread_idx == 9) {
    simt::store(shared + kABytes + 40, uint8_t{0});
  }
  if (fault != Fault::no_wait) ptx::wgmma_wait_group<0>();

  if (fault != Fault::no_fence_in_second_batch) ptx::wgmma_fence();
  multiply(arguments, d);
  ptx::wgmma_commit_group();
  if (fault != Fault::no_wait) ptx::wgmma_wait_group<0>();
  float* out = arguments.d + size_t{thread_idx / ptx::kWarpgroupLanes} * ptx::kWgmmaRows * kSpec.n;
  for (uint32_t i = 0; i < kSpec.n / 2; ++i) {
    simt::store(out + ptx::d_row(lane, i) * kSpec.n + ptx::d_column(lane, i), d[i]);
  }
}

struct Outcome {
  emu::Report report;
  std::vector<uint32_t> d;       // [num_warpgroups, 64, n] bits
  std::vector<uint32_t> wanted;  // the same by the plain model
};

Outcome run(Fault fault, Operands operands, uint64_t seed, emu::Races races = emu::Races::ignore,
            uint32_t num_warpgroups = 1) {
  std::vector<uint8_t> a(kABytes);
  std::vector<uint8_t> b(kBBytes);
  const check::Stream stream(seed);
  for (uint32_t i = 0; i < kABytes; ++i) a[i] = static_cast<uint8_t>(stream.at(i) & 0xBFU);
  for (uint32_t i = 0; i < kBBytes; ++i) b[i] = static_cast<uint8_t>(stream.at(kABytes + i) & 0xBFU);

  Result<emu::Machine> machine = emu::Machine::create({.seed = seed, .races = races});
  EXPECT_TRUE(machine.ok());
  const size_t num_results = size_t{num_warpgroups} * ptx::kWgmmaRows * kSpec.n;
  auto* device_a = machine->allocate<uint8_t>(0, kABytes);
  auto* device_b = machine->allocate<uint8_t>(0, kBBytes);
  auto* device_d = machine->allocate<float>(0, num_results);
  machine->write(device_a, a.data(), kABytes);
  machine->write(device_b, b.data(), kBBytes);
  const Arguments arguments{device_a, device_b, device_d, operands, fault};
  const uint32_t num_threads = num_warpgroups * ptx::kWarpgroupLanes;
  const Status launched =
      machine->launch({.num_threads = num_threads, .shared_bytes = kSharedBytes}, [=] { kernel(arguments); });
  EXPECT_TRUE(launched.ok());
  Outcome outcome{machine->run(), std::vector<uint32_t>(num_results), {}};
  std::memcpy(outcome.d.data(), device_d, num_results * sizeof(float));

  std::vector<uint8_t> a_step(64 * 32);
  std::vector<uint8_t> b_step(kSpec.n * 32);
  std::vector<uint32_t> wanted(size_t{ptx::kWgmmaRows} * kSpec.n, float_bits(1.0F));
  for (uint32_t step = 0; step < 2 * kNumSteps; ++step) {
    for (uint32_t row = 0; row < 64; ++row) std::memcpy(&a_step[row * 32], &a[row * 128 + step % kNumSteps * 32], 32);
    for (uint32_t row = 0; row < kSpec.n; ++row) {
      std::memcpy(&b_step[row * 32], &b[row * 128 + step % kNumSteps * 32], 32);
    }
    emu::tensor_core::multiply_rows(kSpec, ScaleD::accumulate, a_step.data(), b_step.data(), wanted.data());
  }
  for (uint32_t i = 0; i < num_warpgroups; ++i) {
    outcome.wanted.insert(outcome.wanted.end(), wanted.begin(), wanted.end());
  }
  return outcome;
}

TEST(Warpgroup, SameBitsAsTheModel) {
  for (const Operands operands : {Operands::shared, Operands::a_in_registers}) {
    for (const emu::Races races : {emu::Races::ignore, emu::Races::find}) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const Outcome outcome = run(Fault::none, operands, seed, races, 2);
        EXPECT_TRUE(outcome.report.clean()) << outcome.report.to_string();
        EXPECT_EQ(outcome.d, outcome.wanted) << "seed " << seed;
      }
    }
  }
}

struct Planted {
  Fault fault;
  FindingKind kind;
  const char* name;
  emu::Races races = emu::Races::ignore;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsFound) {
  uint32_t num_found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = run(GetParam().fault, Operands::shared, seed, GetParam().races);
    num_found += outcome.report.found(GetParam().kind) ? 1 : 0;
    for (const emu::Finding& finding : outcome.report.findings) {
      EXPECT_NE(finding.file.find("warpgroup_test.cpp"), std::string::npos) << finding.to_string();
    }
  }
  EXPECT_EQ(num_found, 10U);
}

const std::vector<Planted> kPlanted = {
    Planted{Fault::no_proxy_fence, FindingKind::missing_proxy_fence, "no_proxy_fence"},
    Planted{Fault::no_barrier, FindingKind::read_write_race, "no_barrier", emu::Races::find},
    Planted{Fault::no_fence, FindingKind::mma_order, "no_fence"},
    Planted{Fault::no_fence_in_second_batch, FindingKind::mma_order, "no_fence_in_second_batch"},
    Planted{Fault::no_wait, FindingKind::mma_order, "no_wait"},
    Planted{Fault::touches_d_in_flight, FindingKind::mma_order, "touches_d_in_flight"},
    Planted{Fault::pins_d_in_flight, FindingKind::mma_order, "pins_d_in_flight"},
    Planted{Fault::stores_d_in_flight, FindingKind::mma_order, "stores_d_in_flight"},
    Planted{Fault::shuffles_d_in_flight, FindingKind::mma_order, "shuffles_d_in_flight"},
    Planted{Fault::overwrites_operand_in_flight, FindingKind::copy_in_flight, "overwrites_operand_in_flight"},
    Planted{Fault::b_beyond_shared_memory, FindingKind::out_of_bounds, "b_beyond_shared_memory"},
    Planted{Fault::lanes_disagree, FindingKind::divergent_collective, "lanes_disagree"},
    Planted{Fault::changes_n_in_flight, FindingKind::mma_order, "changes_n_in_flight"}};

INSTANTIATE_TEST_SUITE_P(Wgmma, PlantedFault, testing::ValuesIn(kPlanted),
                         [](const auto& planted) { return std::string(planted.param.name); });

TEST(WgmmaFaults, StandInTheDocs) {
  std::string table = emu::testing::kFaultTableHead;
  for (const Planted& planted : kPlanted) {
    table += emu::testing::fault_table_row(planted.name, planted.kind, planted.races, "every");
  }
  emu::testing::expect_doc_section("wgmma faults", table);
}

// Two groups in flight on two accumulators: wait_group<1> hands back the older one only. Pins say the same: none is
// a finding.
TEST(Warpgroup, GroupsEndInOrder) {
  Result<emu::Machine> machine = emu::Machine::create({.seed = 3});
  ASSERT_TRUE(machine.ok());
  const std::vector<uint8_t> codes(kABytes, 0x38);  // ones
  auto* device_codes = machine->allocate<uint8_t>(0, kABytes);
  auto* device_d = machine->allocate<float>(0, size_t{4} * ptx::kWarpgroupLanes);
  machine->write(device_codes, codes.data(), kABytes);
  const Arguments arguments{device_codes, device_codes, device_d, Operands::shared, Fault::none};
  const Status launched = machine->launch({.num_threads = ptx::kWarpgroupLanes, .shared_bytes = kSharedBytes}, [=] {
    stage(arguments.a, simt::dynamic_shared(), kABytes);
    stage(arguments.b, simt::dynamic_shared() + kABytes, kBBytes);
    ptx::fence_proxy_async_shared();
    simt::sync_threads();
    float older[kSpec.n / 2] = {};
    float newer[kSpec.n / 2] = {};
    ptx::wgmma_fence();
    multiply(arguments, older);
    ptx::wgmma_commit_group();
    multiply(arguments, newer);
    ptx::wgmma_commit_group();
    float* out = arguments.d + size_t{4} * simt::thread_idx();
    ptx::wgmma_wait_group<1>();
    ptx::wgmma_pin(older);
    simt::store(out, older[0]);
    simt::store(out + 1, float_bits(newer[0]) == emu::kUnfinishedD ? 1.0F : 0.0F);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(newer);
    simt::store(out + 2, older[0]);
    simt::store(out + 3, newer[0]);
  });
  ASSERT_TRUE(launched.ok());
  const emu::Report report = machine->run();
  EXPECT_TRUE(report.clean()) << report.to_string();
  constexpr float kSum = 32.0F * kNumSteps;
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    const float* seen = device_d + size_t{4} * lane;
    EXPECT_EQ(seen[0], kSum);
    EXPECT_EQ(seen[1], 1.0F);
    EXPECT_EQ(seen[2], kSum);
    EXPECT_EQ(seen[3], kSum);
  }
}

// A tile may have rows that nobody wrote, as long as nobody looks at what they give: NaN, in these rows alone.
TEST(Warpgroup, UnwrittenRowsGiveNanInTheirOwnRows) {
  Outcome outcome = run(Fault::padding_unwritten, Operands::shared, 1);
  EXPECT_TRUE(outcome.report.clean()) << outcome.report.to_string();
  std::fill(outcome.wanted.begin() + 56 * kSpec.n, outcome.wanted.end(), 0x7FFFFFFFU);
  EXPECT_EQ(outcome.d, outcome.wanted);
}

// An accumulator that is read too early is a NaN that nothing else makes.
TEST(Warpgroup, UnfinishedAccumulatorReadsAsNan) {
  const Outcome outcome = run(Fault::no_wait, Operands::shared, 1);
  for (const uint32_t bits : outcome.d) EXPECT_EQ(bits, emu::kUnfinishedD);
}

}  // namespace
}  // namespace megamoe
