// The real model in data/tiny-moe.

#include <gtest/gtest.h>

#include <string>

#include "expect_error.hpp"
#include "formats/safetensors.hpp"
#include "formats/tensor_values.hpp"
#include "megamoe/checkpoint.hpp"

namespace megamoe {
namespace {

std::string data(const char* name) { return std::string(MM_SOURCE_DIR "/data/tiny-moe/") + name; }

void expect_tiny_shape(const MoeLayerInfo& info, uint32_t layer_idx) {
  EXPECT_EQ(info.layer_idx, layer_idx);
  EXPECT_EQ(info.shape.hidden, 256U);
  EXPECT_EQ(info.shape.intermediate, 128U);
  EXPECT_EQ(info.shape.num_experts, 32U);
  EXPECT_EQ(info.shape.top_k, 4U);
  EXPECT_EQ(info.shape.num_shared_experts, 1U);
  EXPECT_TRUE(info.missing.empty());
  EXPECT_TRUE(info.unknown.empty());
  EXPECT_EQ(info.layout, GateUpLayout::separate);
  EXPECT_FALSE(info.activation.limit.has_value());
  ASSERT_TRUE(info.router.has_value());
  EXPECT_EQ(info.router->kind, RouterKind::sigmoid_bias);
  EXPECT_TRUE(info.router->renormalise);
  EXPECT_EQ(info.router->scale, 2.5F);
  EXPECT_EQ(info.router->top_k, 4U);
  EXPECT_EQ(info.router->num_groups, 1U);
}

TEST(TinyMoe, Fp8) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(data("fp8.safetensors"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  EXPECT_EQ(checkpoint->num_tensors(), 419U);
  EXPECT_EQ(checkpoint->num_bytes(), 9294768U - 48760U - 8U);
  ASSERT_EQ(checkpoint->layers().size(), 2U);
  for (uint32_t i = 0; i < 2; ++i) {
    const MoeLayerInfo& info = checkpoint->layers()[i];
    expect_tiny_shape(info, i + 1);
    EXPECT_EQ(info.naming, Naming::deepseek_v3);
    EXPECT_EQ(info.format, WeightFormat::fp8_block);
    EXPECT_EQ(info.shared_format, WeightFormat::fp8_block);
    EXPECT_EQ(info.block_rows, 128U);
    EXPECT_EQ(info.block_cols, 128U);
    EXPECT_FALSE(info.e8m0_scales);
  }
  const auto layer = checkpoint->layer(2);
  ASSERT_TRUE(layer.ok()) << layer.status().to_string();
  for (uint32_t expert_idx = 0; expert_idx < 32; ++expert_idx) {
    const Result<ExpertWeights> weights = (*layer)->routed(expert_idx);
    ASSERT_TRUE(weights.ok()) << weights.status().to_string();
    EXPECT_EQ(weights->gate.values.size(), 128U * 256U);
    EXPECT_EQ(weights->down.num_rows, 256U);
    EXPECT_EQ(weights->down.num_cols, 128U);
    const auto scales = std::get<std::span<const float>>(weights->down.scales);
    ASSERT_EQ(scales.size(), 2U);
    EXPECT_GT(scales[0], 0.0F);
  }
  EXPECT_TRUE((*layer)->shared(0).ok());
  expect_error((*layer)->routed(32).status(), StatusCode::invalid_argument, {"expert_idx must be below 32", "got 32"});
  expect_error((*layer)->shared(1).status(), StatusCode::invalid_argument, {"shared_idx must be below 1", "got 1"});
  EXPECT_EQ((*layer)->router_weights().gate.size(), 32U * 256U);
  EXPECT_EQ((*layer)->router_weights().selection_bias.size(), 32U);
  EXPECT_TRUE((*layer)->router_weights().logit_bias.empty());
  expect_error(checkpoint->layer(0).status(), StatusCode::not_found,
               {"layer must be one of [1, 2]", "got 0", "choose"});
}

TEST(TinyMoe, Mxfp4) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(data("mxfp4.safetensors"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  ASSERT_EQ(checkpoint->layers().size(), 2U);
  for (uint32_t i = 0; i < 2; ++i) {
    const MoeLayerInfo& info = checkpoint->layers()[i];
    expect_tiny_shape(info, i + 1);
    EXPECT_EQ(info.naming, Naming::deepseek_v4);
    EXPECT_EQ(info.format, WeightFormat::mxfp4);
    EXPECT_EQ(info.shared_format, WeightFormat::bf16);
    EXPECT_EQ(info.block_rows, 1U);
    EXPECT_EQ(info.block_cols, 32U);
    EXPECT_TRUE(info.e8m0_scales);
  }
  const auto layer = checkpoint->layer(1);
  ASSERT_TRUE(layer.ok()) << layer.status().to_string();
  const Result<ExpertWeights> weights = (*layer)->routed(31);
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->gate.values.size(), 128U * 128U);
  EXPECT_EQ(std::get<std::span<const E8m0>>(weights->gate.scales).size(), 128U * 8U);
  const Result<ExpertWeights> shared = (*layer)->shared(0);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->up.format, WeightFormat::bf16);
  EXPECT_EQ(shared->up.values.size(), 128U * 256U * 2U);
}

TEST(TinyMoe, Probe) {
  const Result<SafeTensors> probe = SafeTensors::open(data("probe.safetensors"));
  ASSERT_TRUE(probe.ok()) << probe.status().to_string();
  const TensorView* x = probe->find("layers.1.x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(bf16_values(*x)->values().size(), 512U * 256U);
  const TensorView* ids = probe->find("layers.2.topk_idx");
  ASSERT_NE(ids, nullptr);
  const Result<TensorValues<int64_t>> values = int64_values(*ids);
  ASSERT_TRUE(values.ok());
  for (const int64_t id : values->values()) EXPECT_TRUE(id >= 0 && id < 32) << id;
  EXPECT_EQ(probe->find("layers.3.x"), nullptr);
}

TEST(TinyMoe, FolderWithSeveralFilesAsksWhich) {
  expect_error(Checkpoint::open(data("")).status(), StatusCode::invalid_file,
               {"must hold model.safetensors.index.json, model.safetensors or exactly one .safetensors file",
                "got fp8.safetensors, mxfp4.safetensors, probe.safetensors", "name one of these files"});
}

}  // namespace
}  // namespace megamoe
