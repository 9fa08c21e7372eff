// Bulk and tensor copies against an independent description of what they move.

#include <algorithm>

#include "cuda/ptx/bulk_copy.hpp"
#include "cuda/ptx/fence.hpp"
#include "cuda/ptx/mbarrier.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/simt/block.hpp"
#include "cuda/simt/cluster.hpp"
#include "cuda/simt/memory.hpp"
#include "cuda/simt/warp.hpp"
#include "formats/bf16.hpp"
#include "testing.hpp"

namespace megamoe::emu::testing {

namespace {

using ptx::Swizzle;
using ptx::TensorElement;
using ptx::TensorMapSpec;

constexpr uint32_t kTileBytes = 32 * 1024;
constexpr uint8_t kUntouched = 0xC5;

/// Where byte `offset` of a packed box stands in shared memory: the documented chunk permutation, written as a table of
/// rows and chunks rather than as bits.
uint32_t expected_place(Swizzle swizzle, uint32_t offset) {
  const uint32_t row_bytes = swizzle == Swizzle::none  ? 16
                             : swizzle == Swizzle::b32 ? 32
                             : swizzle == Swizzle::b64 ? 64
                                                       : 128;
  const uint32_t num_chunks = row_bytes / 16;
  const uint32_t line = offset / 128;  // the pattern moves on every 128 bytes, however short its rows
  const uint32_t chunk = offset / 16 % num_chunks;
  return offset / row_bytes * row_bytes + (chunk ^ line % num_chunks) * 16 + offset % 16;
}

struct Box {
  TensorMapSpec spec;
  std::vector<int32_t> at;
};

/// Byte of the tensor under each byte of the packed box: -1 where it is out of bounds.
std::vector<int64_t> box_sources(const Box& box) {
  const TensorMapSpec& spec = box.spec;
  const auto width = static_cast<uint32_t>(spec.element);
  std::vector<int64_t> sources;
  std::vector<uint32_t> index(spec.num_dims, 0);
  for (;;) {
    int64_t address = 0;
    bool inside = true;
    for (uint32_t dim = 0; dim < spec.num_dims; ++dim) {
      const int64_t element = box.at[dim] + int64_t{index[dim]} * (dim == 0 ? 1 : spec.element_strides[dim]);
      inside = inside && element >= 0 && element < static_cast<int64_t>(spec.sizes[dim]);
      address += element * static_cast<int64_t>(dim == 0 ? width : spec.strides_bytes[dim - 1]);
    }
    for (uint32_t i = 0; i < width; ++i) sources.push_back(inside ? address + i : -1);
    uint32_t dim = 0;
    for (; dim < spec.num_dims; ++dim) {
      const uint32_t stride = dim == 0 ? 1 : spec.element_strides[dim];
      if (++index[dim] * stride < spec.box[dim]) break;
      index[dim] = 0;
    }
    if (dim == spec.num_dims) return sources;
  }
}

template <uint32_t kNumDims>
void load_box(void* tile, const ptx::TensorMap* map, const std::vector<int32_t>& at, uint64_t* mbarrier) {
  int32_t coordinates[kNumDims];
  std::copy_n(at.begin(), kNumDims, coordinates);
  ptx::tensor_load(tile, map, coordinates, mbarrier);
}
template <uint32_t kNumDims>
void store_box(const ptx::TensorMap* map, const std::vector<int32_t>& at, const void* tile) {
  int32_t coordinates[kNumDims];
  std::copy_n(at.begin(), kNumDims, coordinates);
  ptx::tensor_store(map, coordinates, tile);
}

/// Loads the box into shared memory and hands the raw bytes of shared memory out.
std::vector<uint8_t> load_raw(const Box& box, const std::vector<uint8_t>& tensor, uint64_t seed) {
  Machine machine = make_machine({.seed = seed, .races = Races::find});
  auto* global = machine.allocate<uint8_t>(0, tensor.size());
  machine.write(global, tensor.data(), tensor.size());
  auto* raw = machine.allocate<uint8_t>(0, kTileBytes);
  TensorMapSpec spec = box.spec;
  spec.base = global;
  const Result<ptx::TensorMap> map = make_tensor_map(spec);
  EXPECT_TRUE(map.ok()) << map.status().to_string();
  const auto num_bytes = static_cast<uint32_t>(box_sources(box).size());
  run_clean(machine, {.num_threads = 32, .shared_bytes = kTileBytes + 1024}, [&] {
    uint8_t* tile = simt::dynamic_shared();
    tile += (1024 - simt::shared_address(tile) % 1024) % 1024;
    auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared() + kTileBytes);
    if (simt::thread_idx() != 0) return;
    ptx::mbarrier_init(mbarrier, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(mbarrier, num_bytes);
    switch (spec.num_dims) {
      case 1: load_box<1>(tile, &*map, box.at, mbarrier); break;
      case 2: load_box<2>(tile, &*map, box.at, mbarrier); break;
      case 3: load_box<3>(tile, &*map, box.at, mbarrier); break;
      case 4: load_box<4>(tile, &*map, box.at, mbarrier); break;
      default: load_box<5>(tile, &*map, box.at, mbarrier); break;
    }
    ptx::mbarrier_wait(mbarrier, 0);
    for (uint32_t i = 0; i < num_bytes; ++i) simt::store(raw + i, simt::load(tile + i));
  });
  return {raw, raw + num_bytes};
}

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 131 + i / 256 * 17 + 1);
  return bytes;
}

std::vector<Box> boxes() {
  using E = TensorElement;
  return {
      {{.element = E::u8, .num_dims = 1, .sizes = {4096}, .box = {256}}, {512}},
      {{.element = E::u8, .num_dims = 1, .sizes = {300}, .box = {256}}, {100}},
      {{.element = E::u8,
        .num_dims = 2,
        .sizes = {256, 64},
        .strides_bytes = {256},
        .box = {128, 16},
        .swizzle = Swizzle::b128},
       {128, 8}},
      {{.element = E::u16,
        .num_dims = 2,
        .sizes = {100, 40},
        .strides_bytes = {208},
        .box = {32, 24},
        .swizzle = Swizzle::b64},
       {70, 20}},
      {{.element = E::u16,
        .num_dims = 2,
        .sizes = {64, 40},
        .strides_bytes = {128},
        .box = {16, 16},
        .swizzle = Swizzle::b32},
       {-5, -3}},
      {{.element = E::u32,
        .num_dims = 2,
        .sizes = {32, 64},
        .strides_bytes = {128},
        .box = {32, 16},
        .element_strides = {1, 2},
        .swizzle = Swizzle::b128},
       {0, 4}},
      {{.element = E::u32, .num_dims = 3, .sizes = {20, 6, 5}, .strides_bytes = {80, 480}, .box = {8, 4, 3}},
       {16, 4, 3}},
      {{.element = E::u8, .num_dims = 4, .sizes = {64, 3, 4, 2}, .strides_bytes = {64, 192, 768}, .box = {32, 2, 3, 2}},
       {16, 1, 2, -1}},
      {{.element = E::u16,
        .num_dims = 5,
        .sizes = {16, 2, 3, 2, 2},
        .strides_bytes = {32, 64, 192, 384},
        .box = {8, 2, 2, 2, 2},
        .element_strides = {1, 1, 1, 1, 2}},
       {8, 0, 1, 0, 0}},
  };
}

TEST(TensorCopy, LoadsHonourBoxStrideSwizzleAndEdges) {
  uint64_t seed = 0;
  for (const Box& box : boxes()) {
    const std::vector<uint8_t> tensor = some_bytes(16384);
    const std::vector<int64_t> sources = box_sources(box);
    const std::vector<uint8_t> raw = load_raw(box, tensor, ++seed);
    ASSERT_EQ(raw.size(), sources.size());
    for (uint32_t i = 0; i < sources.size(); ++i) {
      const uint8_t wanted = sources[i] < 0 ? 0 : tensor[static_cast<size_t>(sources[i])];
      ASSERT_EQ(raw[expected_place(box.spec.swizzle, i)], wanted) << "box " << seed << " byte " << i;
    }
  }
}

/// A store takes a box that was loaded to where it came from, and touches nothing else.
TEST(TensorCopy, StoresWriteInsideTheTensorOnly) {
  uint64_t seed = 0;
  for (const Box& box : boxes()) {
    Machine machine = make_machine({.seed = ++seed, .races = Races::find});
    const std::vector<uint8_t> tensor = some_bytes(16384);
    auto* from = machine.allocate<uint8_t>(0, tensor.size());
    auto* to = machine.allocate<uint8_t>(0, tensor.size());
    machine.write(from, tensor.data(), tensor.size());
    machine.fill(to, kUntouched, tensor.size());
    TensorMapSpec spec = box.spec;
    spec.base = from;
    const ptx::TensorMap source = *make_tensor_map(spec);
    spec.base = to;
    const ptx::TensorMap target = *make_tensor_map(spec);
    const std::vector<int64_t> bytes = box_sources(box);
    run_clean(machine, {.num_threads = 32, .shared_bytes = kTileBytes + 1024}, [&] {
      uint8_t* tile = simt::dynamic_shared();
      auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared() + kTileBytes);
      if (simt::thread_idx() != 0) return;
      ptx::mbarrier_init(mbarrier, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(mbarrier, static_cast<uint32_t>(bytes.size()));
      const auto copy = [&]<uint32_t kNumDims>(std::integral_constant<uint32_t, kNumDims>) {
        load_box<kNumDims>(tile, &source, box.at, mbarrier);
        ptx::mbarrier_wait(mbarrier, 0);
        store_box<kNumDims>(&target, box.at, tile);
      };
      switch (spec.num_dims) {
        case 1: copy(std::integral_constant<uint32_t, 1>{}); break;
        case 2: copy(std::integral_constant<uint32_t, 2>{}); break;
        case 3: copy(std::integral_constant<uint32_t, 3>{}); break;
        case 4: copy(std::integral_constant<uint32_t, 4>{}); break;
        default: copy(std::integral_constant<uint32_t, 5>{}); break;
      }
      ptx::bulk_commit_group();
      ptx::bulk_wait_group<0>();
    });
    for (int64_t i = 0; i < static_cast<int64_t>(tensor.size()); ++i) {
      const bool inside = std::find(bytes.begin(), bytes.end(), i) != bytes.end();
      ASSERT_EQ(to[i], inside ? tensor[static_cast<size_t>(i)] : kUntouched) << "box " << seed << " byte " << i;
    }
  }
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  alignas(64) static uint8_t memory[64];
  const TensorMapSpec good{.base = memory,
                           .num_dims = 2,
                           .sizes = {128, 4},
                           .strides_bytes = {128},
                           .box = {64, 4},
                           .swizzle = Swizzle::b64};
  EXPECT_TRUE(make_tensor_map(good).ok());
  const auto refused = [&](auto change) {
    TensorMapSpec spec = good;
    change(spec);
    const Result<ptx::TensorMap> map = make_tensor_map(spec);
    return !map.ok() && map.status().code() == StatusCode::invalid_argument;
  };
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.base = memory + 8; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.num_dims = 6; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.sizes[1] = 0; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.box[1] = 257; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.strides_bytes[0] = 120; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.element_strides[1] = 9; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.box[0] = 40; }));
  EXPECT_TRUE(refused([](TensorMapSpec& spec) { spec.box[0] = 128; }));
}

TEST(BulkCopy, MulticastReachesEveryNamedBlock) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find});
    std::vector<uint32_t> values(256);
    for (uint32_t i = 0; i < 256; ++i) values[i] = i * 7;
    uint32_t* source = words_of(machine, 0, values);
    uint32_t* results = words_of(machine, 0, std::vector<uint32_t>(size_t{4} * 256, 0));
    run_clean(machine, {.num_blocks = 4, .num_threads = 32, .num_cluster_blocks = 4, .shared_bytes = 4096}, [&] {
      auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
      auto* tile = reinterpret_cast<uint32_t*>(simt::dynamic_shared() + 1024);
      if (simt::thread_idx() == 0) {
        ptx::mbarrier_init(mbarrier, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(mbarrier, 1024);
      }
      simt::cluster_arrive();
      simt::cluster_wait();
      // Every block fetches a quarter for all.
      const uint32_t quarter = simt::cluster_block_idx() * 64;
      if (simt::thread_idx() == 0) ptx::bulk_load_multicast(tile + quarter, source + quarter, 256, mbarrier, 0xF);
      ptx::mbarrier_wait<ptx::Scope::cluster>(mbarrier, 0);
      for (uint32_t i = simt::thread_idx(); i < 256; i += 32) {
        simt::store(results + size_t{simt::block_idx()} * 256 + i, simt::load(tile + i));
      }
      simt::cluster_arrive();
      simt::cluster_wait();
    });
    for (uint32_t i = 0; i < 4 * 256; ++i) ASSERT_EQ(results[i], values[i % 256]);
  }
}

TEST(BulkCopy, PushesToANeighbourAndReducesIntoGlobalMemory) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find});
    auto* sums = machine.allocate<float>(0, 64);
    auto* halves = machine.allocate<uint16_t>(0, 64);
    machine.fill(sums, 0, 256);
    machine.fill(halves, 0, 128);
    run_clean(machine, {.num_blocks = 2, .num_threads = 64, .num_cluster_blocks = 2, .shared_bytes = 4096}, [&] {
      auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
      auto* mine = reinterpret_cast<float*>(simt::dynamic_shared() + 1024);
      auto* received = reinterpret_cast<float*>(simt::dynamic_shared() + 2048);
      auto* rounded = reinterpret_cast<uint16_t*>(simt::dynamic_shared() + 3072);
      const uint32_t me = simt::cluster_block_idx();
      simt::store(mine + simt::thread_idx(), static_cast<float>(simt::thread_idx() + me));
      simt::store(rounded + simt::thread_idx(), bf16_from_float(static_cast<float>(simt::thread_idx() + me)));
      if (simt::thread_idx() == 0) {
        ptx::mbarrier_init(mbarrier, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(mbarrier, 256);
      }
      ptx::fence_proxy_async_shared();
      simt::cluster_arrive();
      simt::cluster_wait();
      if (simt::thread_idx() == 0) {
        ptx::bulk_push(simt::map_to_block(received, me ^ 1U), mine, 256, simt::map_to_block(mbarrier, me ^ 1U));
      }
      ptx::mbarrier_wait<ptx::Scope::cluster>(mbarrier, 0);
      const float value = simt::load(received + simt::thread_idx());
      simt::store(received + simt::thread_idx(), value * 2);
      ptx::fence_proxy_async_shared();
      simt::sync_threads();
      if (simt::thread_idx() == 0) {
        ptx::bulk_reduce_add_f32(sums, received, 256);
        ptx::bulk_reduce_add_bf16(halves, rounded, 128);
        ptx::bulk_commit_group();
        ptx::bulk_wait_group<0>();
      }
      simt::cluster_arrive();
      simt::cluster_wait();
    });
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(sums[i], static_cast<float>(2 * (i + i + 1)));
      ASSERT_EQ(bf16_to_float(halves[i]), static_cast<float>(2 * i + 1));
    }
  }
}

/// Groups complete in order of their numbers as far as waits are concerned.
TEST(BulkCopy, WaitGroupCountsFromTheLatest) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Machine machine = make_machine({.seed = seed, .races = Races::find});
    uint32_t* out = words_of(machine, 0, std::vector<uint32_t>(size_t{64} * 8, 0));
    run_clean(machine, {.num_threads = 32, .shared_bytes = 1024}, [&] {
      auto* stages = reinterpret_cast<uint32_t*>(simt::dynamic_shared());
      for (uint32_t round = 0; round < 8; ++round) {
        // Two stages: before the third round the first must have been read.
        uint32_t* stage = stages + size_t{round % 2} * 64;
        if (simt::thread_idx() == 0) ptx::bulk_wait_group_read<1>();
        simt::syncwarp();
        for (uint32_t i = 0; i < 2; ++i) simt::store(stage + simt::thread_idx() + size_t{32} * i, round);
        ptx::fence_proxy_async_shared();
        simt::syncwarp();
        if (simt::thread_idx() != 0) continue;
        ptx::bulk_store(out + size_t{round} * 64, stage, 256);
        ptx::bulk_commit_group();
      }
      if (simt::thread_idx() == 0) ptx::bulk_wait_group<0>();
    });
    for (uint32_t i = 0; i < 64 * 8; ++i) ASSERT_EQ(out[i], i / 64);
  }
}

/// Padding that nobody wrote may be copied, but not read.
TEST(BulkCopy, WhatNobodyWroteStaysUnwrittenInItsCopy) {
  Machine machine = make_machine({});
  auto* source = machine.allocate<uint32_t>(0, 64);
  machine.fill(source, 1, 128);
  launch(machine, {.num_threads = 1, .shared_bytes = 2048}, [&] {
    auto* mbarrier = reinterpret_cast<uint64_t*>(simt::dynamic_shared());
    auto* tile = reinterpret_cast<uint32_t*>(simt::dynamic_shared() + 1024);
    ptx::mbarrier_init(mbarrier, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(mbarrier, 256);
    ptx::bulk_load(tile, source, 256, mbarrier);
    ptx::mbarrier_wait(mbarrier, 0);
    (void)simt::load(tile + 31);
    (void)simt::load(tile + 32);
  });
  const Report report = machine.run();
  ASSERT_EQ(report.findings.size(), 1U) << report.to_string();
  EXPECT_EQ(report.findings[0].kind, FindingKind::unwritten_read);
}

}  // namespace

}  // namespace megamoe::emu::testing
