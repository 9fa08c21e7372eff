#include "emu/tensor_core/gather.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "cuda/ptx/wgmma_fragment.hpp"

namespace megamoe {
namespace {

using emu::tensor_core::OperandRows;
using emu::tensor_core::SharedView;
using ptx::Major;
using ptx::MatrixPlace;
using ptx::Swizzle;

constexpr Swizzle kSwizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

TEST(SwizzledOffset, PermutesChunksInsideARow) {
  for (const Swizzle swizzle : kSwizzles) {
    const uint32_t row_bytes = ptx::swizzle_row_bytes(swizzle);
    std::set<uint32_t> seen;
    for (uint32_t byte = 0; byte < ptx::swizzle_pattern_bytes(swizzle); ++byte) {
      const uint32_t moved = ptx::swizzled_offset(swizzle, byte);
      EXPECT_EQ(moved % 16, byte % 16);
      EXPECT_EQ(moved / row_bytes, byte / row_bytes);
      EXPECT_EQ(ptx::swizzled_offset(swizzle, moved), byte);
      seen.insert(moved);
    }
    EXPECT_EQ(seen.size(), ptx::swizzle_pattern_bytes(swizzle));
  }
}

// The pictures of the PTX documentation in numbers: row 1 of 128-byte rows swaps neighbours, of 64-byte rows row 2
// does.
TEST(SwizzledOffset, KnownPlaces) {
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::b128, 128), 128U + 16U);
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::b128, 7 * 128 + 32), 7U * 128U + (7U ^ 2U) * 16U);
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::b64, 64), 64U);
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::b64, 128), 128U + 16U);
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::b32, 128 + 16), 128U);
  EXPECT_EQ(ptx::swizzled_offset(Swizzle::none, 144), 144U);
}

TEST(Descriptor, FieldsStandWhereTheHardwareWantsThem) {
  const MatrixPlace place{
      .start = 0x3FFF0, .leading_bytes = 16, .stride_bytes = 1024, .swizzle = Swizzle::b128, .base_offset = 5};
  const uint64_t bits = static_cast<uint64_t>(ptx::encode(place));
  EXPECT_EQ(bits, 0x3FFFULL | 1ULL << 16 | 64ULL << 32 | 5ULL << 49 | 1ULL << 62);
  EXPECT_EQ(ptx::decode(ptx::encode(place)), place);
  EXPECT_EQ(static_cast<uint64_t>(
                ptx::encode({.start = 0, .leading_bytes = 0, .stride_bytes = 0, .swizzle = Swizzle::b64})) >>
                62,
            2U);
  EXPECT_EQ(static_cast<uint64_t>(
                ptx::encode({.start = 0, .leading_bytes = 0, .stride_bytes = 0, .swizzle = Swizzle::b32})) >>
                62,
            3U);
}

TEST(Descriptor, AdvanceMovesTheStartOnly) {
  const MatrixPlace place{.start = 2048, .leading_bytes = 16, .stride_bytes = 1024, .swizzle = Swizzle::b128};
  MatrixPlace moved = place;
  moved.start += 96;
  EXPECT_EQ(ptx::decode(ptx::advance(ptx::encode(place), 96)), moved);
}

TEST(Fragments, EveryElementHasOneRegister) {
  for (const uint32_t n : {8U, 24U, 256U}) {
    std::set<std::pair<uint32_t, uint32_t>> elements;
    for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
      for (uint32_t i = 0; i < n / 2; ++i) elements.insert({ptx::d_row(lane, i), ptx::d_column(lane, i)});
    }
    EXPECT_EQ(elements.size(), size_t{64} * n);
    EXPECT_EQ(*elements.rbegin(), std::pair(63U, n - 1));
  }
}

TEST(GatherFragments, MatchesRows) {
  std::vector<uint32_t> words(size_t{4} * ptx::kWarpgroupLanes);
  const uint32_t* registers[ptx::kWarpgroupLanes];
  for (uint32_t lane = 0; lane < ptx::kWarpgroupLanes; ++lane) {
    registers[lane] = &words[size_t{4} * lane];
    for (uint32_t r = 0; r < 4; ++r) words[4 * lane + r] = ptx::a_row(lane, r) << 8 | ptx::a_byte(lane, r);
  }
  const auto rows = std::make_unique<OperandRows>();
  emu::tensor_core::gather_fragments(registers, *rows);
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t byte = 0; byte < 32; byte += 4) {
      EXPECT_EQ(rows->bytes[row * 32 + byte], byte);
      EXPECT_EQ(rows->bytes[row * 32 + byte + 1], row);
    }
  }
}

// Stage a row-major tile the way a tensor copy with swizzle does, and read it back through a descriptor.
TEST(Gather, ReadsWhatATensorCopyLeaves) {
  for (const Swizzle swizzle : {Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const uint32_t row_bytes = ptx::swizzle_row_bytes(swizzle);
    std::vector<std::byte> window(1024 + 64 * row_bytes);
    for (uint32_t byte = 0; byte < 64 * row_bytes; ++byte) {
      window[1024 + ptx::swizzled_offset(swizzle, byte)] = std::byte((byte / row_bytes * 7 + byte % row_bytes) % 251);
    }
    const SharedView view{window.data(), 1024, static_cast<uint32_t>(window.size())};
    const auto rows = std::make_unique<OperandRows>();
    rows->num_rows = 64;
    for (uint32_t step = 0; step < row_bytes / 32; ++step) {
      const MatrixPlace place{
          .start = 1024 + 32 * step, .leading_bytes = 0, .stride_bytes = 8 * row_bytes, .swizzle = swizzle};
      emu::tensor_core::gather(view, place, Major::k, *rows);
      for (uint32_t i = 0; i < 64 * 32; ++i) {
        ASSERT_EQ(rows->bytes[i], (i / 32 * 7 + 32 * step + i % 32) % 251) << "step " << step << " byte " << i;
      }
    }
  }
}

TEST(IsInside, NamesTheFirstChunkBeyondTheEnd) {
  const SharedView view{nullptr, 1024, 1024 + 2048};
  MatrixPlace place{.start = 1024, .leading_bytes = 128, .stride_bytes = 256};
  uint32_t outside = 0;
  EXPECT_TRUE(emu::tensor_core::is_inside(view, place, Major::k, 64, outside));
  place.stride_bytes = 272;
  EXPECT_FALSE(emu::tensor_core::is_inside(view, place, Major::k, 64, outside));
  EXPECT_EQ(outside, 1024U + 7U * 272U + 128U + 16U);
  place.start = 1008;
  EXPECT_FALSE(emu::tensor_core::is_inside(view, place, Major::k, 8, outside));
  EXPECT_EQ(outside, 1008U);
}

}  // namespace
}  // namespace megamoe
