// Every rule of expert_layouts, broken one at a time: the message names expert, rule, value and remedy.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cpu/kernels/pack.hpp"
#include "weights_testing.hpp"

namespace megamoe::cpu {
namespace {

constexpr LayerShape kShape{128, 64, 4, 2, 0};
constexpr MatrixSpec kFp8Spec{WeightFormat::fp8_block, 32, 32, ScaleKind::f32};

/// One broken rule: what is done to a good expert, and what the message must say.
struct Broken {
  const char* name;
  GateUpLayout layout;
  MatrixSpec spec;
  std::function<void(ExpertWeights&, LayerShape&)> damage;
  std::string rule;
  std::string value;
  std::string remedy;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const Broken& one, std::ostream* out) { *out << one.name; }

template <class T>
std::span<const T> shorter(std::span<const T> values) {
  return values.first(values.size() - 1);
}

const float kFloats[256] = {};
const std::byte kBytes[4] = {};
constexpr auto kSeparate = GateUpLayout::separate;
constexpr auto kConcatenated = GateUpLayout::concatenated;
constexpr auto kInterleaved = GateUpLayout::interleaved;

const Broken kBroken[] = {
    {"HiddenNotAMultiple", kSeparate, kBf16Spec, [](auto&, auto& s) { s.hidden = 100; },
     "hidden must be a positive multiple of 16", "100", "pad the weights"},
    {"IntermediateZero", kSeparate, kBf16Spec, [](auto&, auto& s) { s.intermediate = 0; },
     "intermediate must be a positive multiple of 16", "0", "pad the weights"},
    {"UnknownLayout", kSeparate, kBf16Spec, [](auto& w, auto&) { w.layout = static_cast<GateUpLayout>(9); },
     "layout must be separate, concatenated or interleaved", "9", "GateUpLayout"},
    {"UnknownFormat", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate.format = static_cast<WeightFormat>(7); },
     "gate must have format fp8, mxfp4 or bf16", "7", "WeightFormat"},
    {"GateMissing", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate.values = {}; }, "gate must be given", "no values",
     "choose the layout"},
    {"UpMissing", kSeparate, kBf16Spec, [](auto& w, auto&) { w.up = {}; }, "up must be given", "no values",
     "choose the layout"},
    {"GateUpMissing", kConcatenated, kBf16Spec, [](auto& w, auto&) { w.gate_up = {}; }, "gate_up must be given",
     "no values", "choose the layout"},
    {"DownMissing", kInterleaved, kBf16Spec, [](auto& w, auto&) { w.down = {}; }, "down must be given", "no values",
     "pass the matrix"},
    {"GateUpWithSeparate", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate_up.values = kBytes; },
     "gate_up must be empty with layout separate", "values", "one layout only"},
    {"GateUpBiasWithSeparate", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate_up_bias = kFloats; },
     "gate_up_bias must be empty with layout separate", "values", "one layout only"},
    {"GateWithConcatenated", kConcatenated, kBf16Spec, [](auto& w, auto&) { w.gate.values = kBytes; },
     "gate must be empty with layout concatenated", "values", "one layout only"},
    {"UpWithInterleaved", kInterleaved, kBf16Spec, [](auto& w, auto&) { w.up.values = kBytes; },
     "up must be empty with layout interleaved", "values", "one layout only"},
    {"GateBiasWithInterleaved", kInterleaved, kBf16Spec, [](auto& w, auto&) { w.gate_bias = kFloats; },
     "gate_bias must be empty with layout interleaved", "values", "one layout only"},
    {"UpBiasWithConcatenated", kConcatenated, kBf16Spec, [](auto& w, auto&) { w.up_bias = kFloats; },
     "up_bias must be empty with layout concatenated", "values", "one layout only"},
    {"GateRows", kSeparate, kFp8Spec, [](auto& w, auto&) { w.gate.num_rows = 63; }, "gate must have 64 rows", "63",
     "check hidden and intermediate"},
    {"GateUpRows", kInterleaved, kFp8Spec, [](auto& w, auto&) { w.gate_up.num_rows = 64; },
     "gate_up must have 128 rows", "64", "check hidden and intermediate"},
    {"DownTransposed", kSeparate, kFp8Spec, [](auto& w, auto&) { std::swap(w.down.num_rows, w.down.num_cols); },
     "down must have 128 rows", "64", "not transposed"},
    {"UpColumns", kSeparate, kMxfp4Spec, [](auto& w, auto&) { w.up.num_cols = 64; }, "up must have 128 columns", "64",
     "not bytes"},
    {"ValueBytes", kSeparate, kFp8Spec, [](auto& w, auto&) { w.up.values = shorter(w.up.values); },
     "up (fp8) must have 8192 bytes of values", "8191", "whole matrix"},
    {"ValueBytesBf16", kConcatenated, kBf16Spec, [](auto& w, auto&) { w.down.values = shorter(w.down.values); },
     "down (bf16) must have 16384 bytes of values", "16383", "whole matrix"},
    {"NullValues", kSeparate, kFp8Spec,
     [](auto& w, auto&) { w.gate.values = std::span<const std::byte>(static_cast<const std::byte*>(nullptr), 8192); },
     "gate must point to its values", "null", "memory"},
    {"BlockRowsZero", kSeparate, kFp8Spec, [](auto& w, auto&) { w.gate.block_rows = 0; },
     "gate (fp8) must have a scale block of at least 1x1", "0x32", "weight_block_size"},
    {"BlockColsZero", kConcatenated, kFp8Spec, [](auto& w, auto&) { w.down.block_cols = 0; },
     "down (fp8) must have a scale block of at least 1x1", "32x0", "weight_block_size"},
    {"BlockReadAsAnother", kSeparate, kFp8Spec, [](auto& w, auto&) { w.gate.block_rows = w.gate.block_cols = 128; },
     "gate with a scale block of 128x128 must have 1x1 = 1 scales", "8", "weight_block_size"},
    {"NullScales", kSeparate, kFp8Spec,
     [](auto& w, auto&) { w.gate.scales = std::span<const float>(static_cast<const float*>(nullptr), 8); },
     "gate must point to its scales", "null", "memory"},
    {"Mxfp4Block", kSeparate, kMxfp4Spec, [](auto& w, auto&) { w.up.block_cols = 16; },
     "up (mxfp4) must have a scale block of 1x32", "1x16", "block_cols 32"},
    {"Mxfp4ScaleType", kSeparate, kMxfp4Spec,
     [](auto& w, auto&) { w.gate.scales = std::span<const float>(kFloats, 256); }, "gate (mxfp4) must have E8M0 scales",
     "F32 scales", "as bytes"},
    {"Mxfp4ScaleCount", kSeparate, kMxfp4Spec,
     [](auto& w, auto&) { w.down.scales = shorter(std::get<std::span<const E8m0>>(w.down.scales)); },
     "down with a scale block of 1x32 must have 128x2 = 256 scales", "255", "check the block"},
    {"Bf16Block", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate.block_rows = 128; },
     "gate (bf16) must have no scale block, 0x0", "128x0", "set both to 0"},
    {"Bf16Scales", kSeparate, kBf16Spec, [](auto& w, auto&) { w.up.scales = std::span<const float>(kFloats, 3); },
     "up (bf16) must have no scales", "3", "empty span"},
    {"GateBiasLength", kSeparate, kBf16Spec, [](auto& w, auto&) { w.gate_bias = shorter(w.gate_bias); },
     "gate_bias must have 64 values or none", "63", "one value per output column"},
    {"UpBiasLength", kSeparate, kBf16Spec, [](auto& w, auto&) { w.up_bias = shorter(w.up_bias); },
     "up_bias must have 64 values or none", "63", "one value per output column"},
    {"GateUpBiasLength", kInterleaved, kBf16Spec, [](auto& w, auto&) { w.gate_up_bias = shorter(w.gate_up_bias); },
     "gate_up_bias must have 128 values or none", "127", "one value per output column"},
    {"DownBiasLength", kConcatenated, kBf16Spec, [](auto& w, auto&) { w.down_bias = shorter(w.down_bias); },
     "down_bias must have 128 values or none", "127", "one value per output column"},
};

class BrokenWeightsTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenWeightsTest, IsRefused) {
  const Broken& broken = GetParam();
  OwnedExpert expert(broken.layout, broken.spec, kShape);
  LayerShape shape = kShape;
  ASSERT_TRUE(expert_layouts(expert.weights, shape, "expert 12").ok()) << "the expert must be good before it is broken";
  broken.damage(expert.weights, shape);
  const Result<ExpertLayouts> layouts = expert_layouts(expert.weights, shape, "expert 12");
  ASSERT_FALSE(layouts.ok());
  EXPECT_EQ(layouts.status().code(), StatusCode::invalid_argument);
  const std::string& message = layouts.status().message();
  EXPECT_EQ(message.find("expert 12: " + broken.rule), 0U) << message;
  EXPECT_NE(message.find("(got " + broken.value + "); "), std::string::npos) << message;
  EXPECT_NE(message.find(broken.remedy, message.find("); ")), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(EveryRule, BrokenWeightsTest, testing::ValuesIn(kBroken),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(LayoutsTest, FormatsMustAgree) {
  OwnedExpert expert(kSeparate, kBf16Spec, kShape);
  const OwnedMatrix fp8(kFp8Spec, kShape.intermediate, kShape.hidden, 9);
  expert.weights.up = fp8.view();
  EXPECT_EQ(expert_layouts(expert.weights, kShape, "shared expert 0").status().message(),
            "shared expert 0: up must have the format of shared expert 0: gate, bf16 (got fp8); convert one of them");
}

TEST(LayoutsTest, DownMustHaveTheFormatOfGateUp) {
  OwnedExpert expert(kInterleaved, kBf16Spec, kShape);
  const OwnedMatrix fp8(kFp8Spec, kShape.hidden, kShape.intermediate, 9);
  expert.weights.down = fp8.view();
  EXPECT_EQ(expert_layouts(expert.weights, kShape, "expert 1").status().message(),
            "expert 1: down must have the format of expert 1: gate_up, bf16 (got fp8); convert one of them");
}

TEST(LayoutsTest, BlocksOfGateAndUpMustAgree) {
  OwnedExpert expert(kSeparate, kFp8Spec, kShape);
  const OwnedMatrix up({WeightFormat::fp8_block, 64, 32, ScaleKind::f32}, kShape.intermediate, kShape.hidden, 9);
  expert.weights.up = up.view();
  EXPECT_EQ(expert_layouts(expert.weights, kShape, "expert 1").status().message(),
            "expert 1: up must have the scale block of gate, 32x32 (got 64x32); quantise both with the same block");
}

TEST(LayoutsTest, DownMayHaveABlockOfItsOwn) {
  OwnedExpert expert(kSeparate, kFp8Spec, kShape);
  const OwnedMatrix down({WeightFormat::fp8_block, 1, 16, ScaleKind::e8m0}, kShape.hidden, kShape.intermediate, 9);
  expert.weights.down = down.view();
  const Result<ExpertLayouts> layouts = expert_layouts(expert.weights, kShape, "expert 1");
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  EXPECT_EQ(layouts->gemm1.segment_k, 32U);
  EXPECT_EQ(layouts->gemm2.segment_k, 16U);
}

}  // namespace
}  // namespace megamoe::cpu
