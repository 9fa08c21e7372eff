// Every recorded instruction, replayed: equal in every bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emu/tensor_core/dot.hpp"
#include "emu/tensor_core/gather.hpp"
#include "record/recording.hpp"
#include "record/wgmma_cases.hpp"

namespace megamoe {
namespace {

namespace tensor_core = emu::tensor_core;
using record::Case;
using record::CaseSet;

constexpr uint32_t kImageBegin = 1024;  // where the recorder's shared memory began

/// D [64, n] as the emulator computes it.
std::vector<uint32_t> emulate(const Case& instruction) {
  std::vector<std::byte> window(kImageBegin);
  const auto* image = reinterpret_cast<const std::byte*>(instruction.image.data());
  window.insert(window.end(), image, image + instruction.image.size());
  const tensor_core::SharedView view{window.data(), kImageBegin, static_cast<uint32_t>(window.size())};

  const auto read = [&](ptx::MatrixPlace place, ptx::Major major, tensor_core::OperandRows& rows) {
    place.start += kImageBegin;
    // Through the descriptor, so that its encoding is part of what is compared.
    const ptx::MatrixPlace decoded = ptx::decode(ptx::encode(place));
    uint32_t outside = 0;
    ASSERT_TRUE(tensor_core::is_inside(view, decoded, major, rows.num_rows, outside)) << outside;
    tensor_core::gather(view, decoded, major, rows);
  };
  const auto a = std::make_unique<tensor_core::OperandRows>();
  const auto b = std::make_unique<tensor_core::OperandRows>();
  a->num_rows = ptx::kWgmmaRows;
  b->num_rows = instruction.spec.n;
  read(instruction.b_place, instruction.spec.b_major, *b);
  if (instruction.a_source == record::ASource::shared) read(instruction.a_place, instruction.spec.a_major, *a);
  if (instruction.a_source == record::ASource::registers) {
    std::copy(instruction.a_rows.begin(), instruction.a_rows.end(), a->bytes.begin());
  }
  std::vector<uint32_t> d = instruction.d;
  tensor_core::multiply_rows(instruction.spec, instruction.scale_d, a->bytes.data(), b->bytes.data(), d.data());
  return d;
}

class Replay : public testing::TestWithParam<record::CaseSetInfo> {
 protected:
  void SetUp() override {
    auto read = record::read_recording(std::string(MM_SOURCE_DIR "/data/hopper-mma/") + GetParam().name + ".rec");
    ASSERT_TRUE(read.has_value());
    recording_ = std::move(*read);
    ASSERT_EQ(recording_.hashes.size(), GetParam().num_cases);
    ASSERT_EQ(recording_.num_kept, GetParam().num_kept);
  }

  record::Recording recording_;
};

TEST_P(Replay, EveryBit) {
  size_t num_unequal_cases = 0;
  size_t kept_begin = 0;
  for (uint32_t case_idx = 0; case_idx < GetParam().num_cases; ++case_idx) {
    const std::vector<uint32_t> d = emulate(record::make_case(GetParam().set, case_idx));
    if (case_idx < GetParam().num_kept) {
      ASSERT_LE(kept_begin + d.size(), recording_.kept_words.size());
      for (size_t i = 0; i < d.size(); ++i) {
        ASSERT_EQ(d[i], recording_.kept_words[kept_begin + i]) << "case " << case_idx << " result " << i;
      }
      kept_begin += d.size();
    }
    if (record::hash_of(d.data(), d.size()) != recording_.hashes[case_idx]) {
      ++num_unequal_cases;
      if (num_unequal_cases <= 8) ADD_FAILURE() << GetParam().name << " case " << case_idx;
    }
  }
  EXPECT_EQ(num_unequal_cases, 0U);
  EXPECT_EQ(kept_begin, recording_.kept_words.size());
}

INSTANTIATE_TEST_SUITE_P(H200, Replay, testing::ValuesIn(record::kCaseSets), [](const auto& set) {
  std::string name = set.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The comparison above is worth nothing unless it sees one chunk read from the wrong place, or one flipped bit.
TEST(ReplayNotices, WrongPlaceAndFlippedBit) {
  Case instruction = record::make_case(CaseSet::places, 0);
  const std::vector<uint32_t> right = emulate(instruction);
  instruction.b_place.stride_bytes += 16;
  EXPECT_NE(emulate(instruction), right);

  Case numbers = record::make_case(CaseSet::e4m3_numbers, 1);
  numbers.d.assign(numbers.d.size(), 0x3F800000U);
  const std::vector<uint32_t> before = emulate(numbers);
  numbers.d[0] ^= 0x80000000U;
  EXPECT_NE(emulate(numbers), before);
}

}  // namespace
}  // namespace megamoe
