// The field table's folds: layout, extents, document.

#include "flow/workspace.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "host/describe.hpp"

namespace megamoe::flow {
namespace {

Dims some_dims() {
  Dims dims;
  dims.num_ranks = 3;
  dims.hidden = 208;
  dims.intermediate = 144;
  dims.num_experts = 10;
  dims.num_shared = 1;
  dims.top_k = 3;
  dims.max_tokens = 5;
  dims.block_m = 16;
  dims.gemm1_block_n = 128;
  dims.gemm2_block_n = 64;
  dims.experts_per_wave = 2;
  return dims;
}

TEST(Workspace, FieldsAreAlignedInOrderAndApart) {
  const Dims dims = some_dims();
  const WorkspaceLayout layout = WorkspaceLayout::of(dims);
  uint64_t end = 0;
  for (uint32_t i = 0; i < kNumFields; ++i) {
    EXPECT_EQ(layout.offset[i] % kFieldAlign, 0U);
    EXPECT_GE(layout.offset[i], end);
    EXPECT_LT(layout.offset[i] - end, kFieldAlign);
    end = layout.offset[i] + field_extent(Field{i}, dims).num_bytes();
  }
  EXPECT_GE(layout.num_bytes, end);
  EXPECT_LT(layout.num_bytes - end, kWorkspaceAlign + kFieldAlign);
  EXPECT_EQ(layout.num_bytes % kWorkspaceAlign, 0U);
}

TEST(Workspace, ExtentsFollowTheShapes) {
  const Dims dims = some_dims();
  EXPECT_EQ(field_extent(Field::x, dims).num_elements, 5U * 208);
  EXPECT_EQ(field_extent(Field::x, dims).row_elements, 208U);
  EXPECT_EQ(field_extent(Field::x_scale, dims).num_bytes(), 5U * 2 * 4);
  EXPECT_EQ(field_extent(Field::act_scale, dims).row_elements, 2U);
  EXPECT_EQ(field_extent(Field::source_slot, dims).num_elements, 5U * 3 * 15);
  EXPECT_EQ(field_extent(Field::source_slot, dims).row_elements, 3U * 15);
  EXPECT_EQ(field_extent(Field::partial, dims).row_elements, 5U * 208);
  EXPECT_EQ(field_extent(Field::recv_count, dims).row_elements, 3U);
  EXPECT_EQ(field_extent(Field::fault, dims).num_bytes(), sizeof(FaultRecord));
}

TEST(Workspace, PeersShareOffsets) {
  const Dims dims = some_dims();
  const WorkspaceLayout layout = WorkspaceLayout::of(dims);
  std::vector<std::byte> a(layout.num_bytes);
  std::vector<std::byte> b(layout.num_bytes);
  std::byte* bases[2] = {a.data(), b.data()};
  const Peers peers{bases, &layout};
  peers.at(Rank{1}).row<Field::partial>(2)[7] = 41;
  const uint64_t offset =
      layout.offset[static_cast<uint32_t>(Field::partial)] + (2 * uint64_t{dims.max_tokens} * dims.hidden + 7) * 2;
  EXPECT_EQ(std::to_integer<int>(b[offset]), 41);
}

TEST(MemoryDoc, IsWhatTheFieldTableSays) {
  std::ifstream file(MM_SOURCE_DIR "/docs/memory.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), megamoe::internal::memory_markdown())
      << "write it anew: megamoe info --memory-doc > docs/memory.md";
}

TEST(ShapeWords, ReadLikeAShape) {
  EXPECT_EQ(megamoe::internal::shape_words("(d.num_pool_rows(), d.hidden)"), "[num_pool_rows, hidden]");
  EXPECT_EQ(megamoe::internal::shape_words("(1)"), "[1]");
}

}  // namespace
}  // namespace megamoe::flow
