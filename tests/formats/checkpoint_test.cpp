// Each naming family through a small synthetic checkpoint.

#include "megamoe/checkpoint.hpp"

#include <gtest/gtest.h>

#include "checkpoint_builder.hpp"
#include "expect_error.hpp"
#include "temp_folder.hpp"

namespace megamoe {
namespace {

constexpr Storage kBf16{};
constexpr Storage kMxfp4{Dtype::i8, Dtype::f8_e8m0, {1, 32}};

Storage fp8(ScaleBlock block, Dtype scale = Dtype::f32) { return {Dtype::f8_e4m3, scale, block}; }

template <class T>
void expect_same_bytes(std::span<const T> got, std::span<const std::byte> want, const char* what) {
  const std::span<const std::byte> bytes = std::as_bytes(got);
  ASSERT_EQ(bytes.size(), want.size()) << what;
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), want.begin())) << what;
}

/// Opens the folder's single file and its only layer.
class OneLayer {
 public:
  OneLayer(const CheckpointBuilder& builder, std::string_view config, uint32_t layer_idx) {
    const TempFolder folder;
    EXPECT_TRUE(builder.write(folder / "model.safetensors").ok());
    if (!config.empty()) folder.write("config.json", config);
    Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
    if (!checkpoint.ok()) return;
    Result<std::unique_ptr<CheckpointLayer>> layer = checkpoint->layer(layer_idx);
    EXPECT_TRUE(layer.ok()) << layer.status().to_string();
    if (layer.ok()) layer_ = *std::move(layer);
  }
  bool ok() const { return layer_ != nullptr; }
  const CheckpointLayer* operator->() const { return layer_.get(); }

 private:
  // Outlives the Checkpoint and the folder's name: the mapping must live on.
  std::unique_ptr<CheckpointLayer> layer_;
};

TEST(Families, DeepSeekV3WithSmallBlocks) {
  const FamilyNames names = deepseek_names(3);
  CheckpointBuilder builder;
  const Storage storage = fp8({32, 32});
  add_experts(builder, names, 4, {96, 64}, storage);
  add_expert(builder, names, names.prefix + "shared_experts", {96, 64}, storage);
  builder.add(names.prefix + "gate.weight", Dtype::bf16, {4, 96});
  builder.add(names.prefix + "gate.e_score_correction_bias", Dtype::f32, {4});
  const OneLayer layer(builder,
                       R"({"model_type":"deepseek_v3","hidden_size":96,"moe_intermediate_size":64,"n_routed_experts":4,
    "intermediate_size":256,"num_experts_per_tok":2,"n_shared_experts":1,"scoring_func":"sigmoid","topk_method":"noaux_tc","n_group":2,
    "topk_group":1,"norm_topk_prob":true,"routed_scaling_factor":2.5,"hidden_act":"silu",
    "quantization_config":{"weight_block_size":[32,32]}})",
                       3);
  ASSERT_TRUE(layer.ok());
  const MoeLayerInfo& info = layer->info();
  EXPECT_EQ(info.naming, Naming::deepseek_v3);
  EXPECT_EQ(info.shape.hidden, 96U);
  EXPECT_EQ(info.shape.intermediate, 64U);
  EXPECT_EQ(info.shape.num_shared_experts, 1U);
  EXPECT_EQ(info.block_rows, 32U);
  EXPECT_EQ(info.block_cols, 32U);
  ASSERT_TRUE(info.router.has_value());
  EXPECT_EQ(info.router->kind, RouterKind::sigmoid_bias);
  EXPECT_EQ(info.router->num_groups, 2U);
  EXPECT_EQ(info.router->num_top_groups, 1U);
  EXPECT_EQ(layer->router_weights().gate.size(), 4U * 96U);

  const Result<ExpertWeights> weights = layer->routed(2);
  ASSERT_TRUE(weights.ok());
  const std::string stem = names.prefix + "experts.2.";
  expect_same_bytes(weights->gate.values, builder.bytes(stem + "gate_proj.weight"), "gate");
  expect_same_bytes(weights->up.values, builder.bytes(stem + "up_proj.weight"), "up");
  expect_same_bytes(weights->down.values, builder.bytes(stem + "down_proj.weight"), "down");
  expect_same_bytes(std::get<std::span<const float>>(weights->down.scales),
                    builder.bytes(stem + "down_proj.weight_scale_inv"), "scales");
  EXPECT_EQ(weights->down.num_rows, 96U);
  EXPECT_EQ(weights->down.num_cols, 64U);
  EXPECT_EQ(weights->down.block_rows, 32U);
  ASSERT_TRUE(layer->shared(0).ok());
}

// cases.md: weight_block_size 32x32 read as 128x128. Without a config the shapes must tell.
TEST(Families, BlockShapeIsInferredFromTheScales) {
  struct Row {
    Extents extents;
    ScaleBlock stored;
    ScaleBlock inferred;
  };
  for (const Row& row : {Row{{96, 64}, {32, 32}, {32, 32}}, Row{{256, 128}, {128, 128}, {128, 128}},
                         Row{{192, 320}, {64, 32}, {64, 32}}, Row{{16, 16}, {128, 128}, {16, 16}},
                         Row{{80, 48}, {1, 16}, {1, 16}}, Row{{7168, 48}, {128, 128}, {128, 128}}}) {
    CheckpointBuilder builder;
    add_experts(builder, deepseek_names(0), 1, row.extents, fp8(row.stored));
    const OneLayer layer(builder, "", 0);
    ASSERT_TRUE(layer.ok());
    // One scale for a whole axis fits every block that covers it: the values are the same.
    EXPECT_EQ(layer->info().block_rows, row.inferred.rows);
    EXPECT_EQ(layer->info().block_cols, row.inferred.cols);
  }
}

TEST(Families, OddBlocksComeFromTheConfig) {
  CheckpointBuilder builder;
  add_experts(builder, deepseek_names(1), 2, {112, 80}, fp8({48, 80}));
  const OneLayer layer(builder, R"({"num_experts":2,"quantization_config":{"weight_block_size":[48,80]}})", 1);
  ASSERT_TRUE(layer.ok());
  EXPECT_EQ(layer->info().block_rows, 48U);
  EXPECT_EQ(layer->info().block_cols, 80U);
  const Result<ExpertWeights> weights = layer->routed(1);
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(std::get<std::span<const float>>(weights->gate.scales).size(), 2U * 2U);  // ceil(80/48) x ceil(112/80)
  EXPECT_EQ(std::get<std::span<const float>>(weights->down.scales).size(), 3U * 1U);  // ceil(112/48) x ceil(80/80)
}

TEST(Families, E8m0AndBf16Scales) {
  for (const Dtype scale : {Dtype::f8_e8m0, Dtype::bf16}) {
    CheckpointBuilder builder;
    const FamilyNames names = deepseek_names(0);
    add_experts(builder, names, 1, {128, 64}, fp8({64, 64}, scale));
    const OneLayer layer(builder, "", 0);
    ASSERT_TRUE(layer.ok());
    EXPECT_EQ(layer->info().e8m0_scales, scale == Dtype::f8_e8m0);
    const Result<ExpertWeights> weights = layer->routed(0);
    ASSERT_TRUE(weights.ok());
    const std::vector<std::byte>& stored = builder.bytes(names.prefix + "experts.0.gate_proj.weight_scale_inv");
    if (scale == Dtype::f8_e8m0) {
      expect_same_bytes(std::get<std::span<const E8m0>>(weights->gate.scales), stored, "E8M0 scales");
      continue;
    }
    const auto scales = std::get<std::span<const float>>(weights->gate.scales);
    ASSERT_EQ(scales.size(), stored.size() / 2);
    for (size_t i = 0; i < scales.size(); ++i) {
      const uint32_t upper = std::to_integer<uint32_t>(stored[2 * i]) | std::to_integer<uint32_t>(stored[2 * i + 1])
                                                                            << 8;
      EXPECT_EQ(std::bit_cast<uint32_t>(scales[i]), upper << 16);
    }
  }
}

TEST(Families, DeepSeekV4Mxfp4WithFp8SharedExpert) {
  for (const char* prefix : {"", "model."}) {
    FamilyNames names = v4_names(7);
    names.prefix = prefix + names.prefix;
    CheckpointBuilder builder;
    add_experts(builder, names, 2, {128, 64}, kMxfp4);
    add_expert(builder, names, names.prefix + "shared_experts", {128, 64}, fp8({64, 64}, Dtype::f8_e8m0));
    builder.add(names.prefix + "gate.weight", Dtype::bf16, {2, 128});
    builder.add(names.prefix + "gate.bias", Dtype::f32, {2});
    const OneLayer layer(
        builder, R"({"n_routed_experts":2,"num_experts_per_tok":1,"scoring_func":"sqrtsoftplus","swiglu_limit":10.0,
      "topk_method":"noaux_tc","quantization_config":{"weight_block_size":[64,64]}})",
        7);
    ASSERT_TRUE(layer.ok());
    EXPECT_EQ(layer->info().naming, Naming::deepseek_v4);
    EXPECT_EQ(layer->info().format, WeightFormat::mxfp4);
    EXPECT_EQ(layer->info().shared_format, WeightFormat::fp8_block);
    EXPECT_EQ(layer->info().activation.limit, 10.0F);
    EXPECT_EQ(layer->info().router->kind, RouterKind::sqrt_softplus_bias);
    EXPECT_TRUE(layer->info().router->renormalise);
    const Result<ExpertWeights> routed = layer->routed(1);
    ASSERT_TRUE(routed.ok());
    expect_same_bytes(routed->up.values, builder.bytes(names.prefix + "experts.1.w3.weight"), "w3 is up");
    expect_same_bytes(routed->down.values, builder.bytes(names.prefix + "experts.1.w2.weight"), "w2 is down");
    EXPECT_EQ(routed->gate.num_cols, 128U);
    EXPECT_EQ(routed->gate.block_rows, 1U);
    const Result<ExpertWeights> shared = layer->shared(0);
    ASSERT_TRUE(shared.ok());
    EXPECT_EQ(shared->down.block_cols, 64U);
  }
}

TEST(Families, V4LayerRoutedByTokenIdHasNoRouter) {
  const FamilyNames names = v4_names(0);
  CheckpointBuilder builder;
  add_experts(builder, names, 2, {128, 64}, kMxfp4);
  builder.add(names.prefix + "gate.weight", Dtype::bf16, {2, 128});
  builder.add(names.prefix + "gate.tid2eid", Dtype::i64, {100, 1});
  const OneLayer layer(builder, R"({"n_routed_experts":2,"num_experts_per_tok":1,"topk_method":"noaux_tc"})", 0);
  ASSERT_TRUE(layer.ok());
  EXPECT_FALSE(layer->info().router.has_value());
}

TEST(Families, Qwen3) {
  const FamilyNames names = deepseek_names(5);
  CheckpointBuilder builder;
  add_experts(builder, names, 3, {64, 48}, kBf16);
  builder.add(names.prefix + "gate.weight", Dtype::bf16, {3, 64});
  const OneLayer layer(builder,
                       R"({"model_type":"qwen3_moe","hidden_size":64,"moe_intermediate_size":48,"num_experts":3,
    "num_experts_per_tok":2,"norm_topk_prob":true})",
                       5);
  ASSERT_TRUE(layer.ok());
  EXPECT_EQ(layer->info().naming, Naming::qwen3);
  EXPECT_EQ(layer->info().format, WeightFormat::bf16);
  EXPECT_EQ(layer->info().block_rows, 0U);
  EXPECT_EQ(layer->info().router->kind, RouterKind::softmax_topk);
  EXPECT_TRUE(layer->info().router->renormalise);
  const Result<ExpertWeights> weights = layer->routed(0);
  ASSERT_TRUE(weights.ok());
  expect_same_bytes(weights->gate.values, builder.bytes(names.prefix + "experts.0.gate_proj.weight"), "gate");
}

TEST(Families, Mixtral) {
  const FamilyNames names = mixtral_names(2);
  CheckpointBuilder builder;
  add_experts(builder, names, 4, {64, 112}, kBf16);
  builder.add(names.prefix + "gate.weight", Dtype::bf16, {4, 64});
  const OneLayer layer(
      builder, R"({"hidden_size":64,"intermediate_size":112,"num_local_experts":4,"num_experts_per_tok":2})", 2);
  ASSERT_TRUE(layer.ok());
  EXPECT_EQ(layer->info().naming, Naming::mixtral);
  EXPECT_EQ(layer->info().shape.intermediate, 112U);
  EXPECT_EQ(layer->info().router->kind, RouterKind::softmax_topk);
  EXPECT_TRUE(layer->info().router->renormalise);
  const Result<ExpertWeights> weights = layer->routed(3);
  ASSERT_TRUE(weights.ok());
  expect_same_bytes(weights->gate.values, builder.bytes(names.prefix + "experts.3.w1.weight"), "w1 is gate");
  expect_same_bytes(weights->up.values, builder.bytes(names.prefix + "experts.3.w3.weight"), "w3 is up");
}

TEST(Families, DeepSeekV2RoutesBySoftmaxWithoutRenormalisation) {
  const FamilyNames names = deepseek_names(1);
  CheckpointBuilder builder;
  add_experts(builder, names, 4, {64, 32}, kBf16);
  add_expert(builder, names, names.prefix + "shared_experts", {64, 32}, kBf16);
  builder.add(names.prefix + "gate.weight", Dtype::bf16, {4, 64});
  for (const bool greedy : {false, true}) {
    const OneLayer layer(
        builder,
        std::string(R"({"model_type":"deepseek_v2","n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,
      "n_group":2,"topk_group":1,"routed_scaling_factor":16.0,"topk_method":")") +
            (greedy ? "greedy" : "group_limited_greedy") + "\"}",
        1);
    ASSERT_TRUE(layer.ok());
    EXPECT_EQ(layer->info().router->kind, RouterKind::softmax_topk);
    EXPECT_FALSE(layer->info().router->renormalise);
    EXPECT_EQ(layer->info().router->scale, 16.0F);
    EXPECT_EQ(layer->info().router->num_groups, greedy ? 1U : 2U);
  }
}

/// Byte columns [first, first + count) of a row-major matrix.
std::vector<std::byte> byte_columns(const std::vector<std::byte>& matrix, size_t row_bytes, size_t first,
                                    size_t count) {
  std::vector<std::byte> cut;
  for (size_t row = 0; row < matrix.size() / row_bytes; ++row) {
    for (size_t col = first; col < first + count; ++col) cut.push_back(matrix[row * row_bytes + col]);
  }
  return cut;
}

TEST(SharedExperts, AWideOneIsCutIntoSeveral) {
  struct Row {
    Storage storage;
    size_t bytes_per_two_columns;
    size_t scale_bytes;
  };
  for (const Row& row : {Row{kBf16, 4, 0}, Row{fp8({32, 32}), 2, 4}, Row{kMxfp4, 1, 1}}) {
    const FamilyNames names = deepseek_names(0);
    CheckpointBuilder builder;
    add_experts(builder, names, 1, {96, 64}, row.storage);
    add_expert(builder, names, names.prefix + "shared_experts", {96, 3 * 64}, row.storage);
    const OneLayer layer(builder, "", 0);
    ASSERT_TRUE(layer.ok());
    ASSERT_EQ(layer->info().shape.num_shared_experts, 3U);
    const std::string stem = names.prefix + "shared_experts.";
    const std::vector<std::byte>& up = builder.bytes(stem + "up_proj.weight");
    const std::vector<std::byte>& down = builder.bytes(stem + "down_proj.weight");
    const size_t part_bytes = 64 * row.bytes_per_two_columns / 2;
    for (uint32_t shared_idx = 0; shared_idx < 3; ++shared_idx) {
      const Result<ExpertWeights> weights = layer->shared(shared_idx);
      ASSERT_TRUE(weights.ok()) << weights.status().to_string();
      EXPECT_EQ(weights->up.num_rows, 64U);
      EXPECT_EQ(weights->down.num_cols, 64U);
      expect_same_bytes(weights->up.values, std::span(up).subspan(shared_idx * up.size() / 3, up.size() / 3),
                        "up rows");
      expect_same_bytes(weights->down.values, byte_columns(down, 3 * part_bytes, shared_idx * part_bytes, part_bytes),
                        "down columns");
      if (row.scale_bytes == 0) continue;
      const auto bytes_of = [](const auto& scales) { return std::as_bytes(scales); };
      const std::span<const std::byte> scales = std::visit(bytes_of, weights->down.scales);
      const std::vector<std::byte>& stored = builder.bytes(stem + "down_proj.weight_scale_inv");
      expect_same_bytes(
          scales, byte_columns(stored, 6 * row.scale_bytes, shared_idx * 2 * row.scale_bytes, 2 * row.scale_bytes),
          "scales");
    }
  }
}

TEST(SharedExperts, BlocksThatTheCutsWouldSplit) {
  const TempFolder folder;
  const FamilyNames names = deepseek_names(0);
  CheckpointBuilder builder;
  add_experts(builder, names, 1, {128, 96}, fp8({64, 64}));
  add_expert(builder, names, names.prefix + "shared_experts", {128, 192}, fp8({64, 64}));
  ASSERT_TRUE(builder.write(folder / "model.safetensors").ok());
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  expect_error(
      checkpoint->layer(0).status(), StatusCode::invalid_file,
      {"intermediate must be a multiple of the 64 scale rows to be cut into 2 experts", "got 96", "smaller blocks"});
}

TEST(Checkpoints, SeveralLayersInOrderBesideDenseOnes) {
  const TempFolder folder;
  CheckpointBuilder builder;
  for (const uint32_t layer_idx : {10U, 2U}) add_experts(builder, deepseek_names(layer_idx), 1, {64, 32}, kBf16);
  builder.add("model.layers.0.mlp.gate_proj.weight", Dtype::bf16, {128, 64});
  builder.add("model.layers.x.mlp.experts.0.gate_proj.weight", Dtype::bf16, {2, 2});
  builder.add("model.layers.03.mlp.experts.0.gate_proj.weight", Dtype::bf16, {2, 2});
  ASSERT_TRUE(builder.write(folder / "m.safetensors").ok());
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder / "m.safetensors");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  ASSERT_EQ(checkpoint->layers().size(), 2U);
  EXPECT_EQ(checkpoint->layers()[0].layer_idx, 2U);
  EXPECT_EQ(checkpoint->layers()[1].layer_idx, 10U);
  EXPECT_EQ(checkpoint->path(), folder / "m.safetensors");
  expect_error(checkpoint->layer(0).status(), StatusCode::not_found,
               {"layer must be one of [2, 10]", "got 0", "choose"});
}

}  // namespace
}  // namespace megamoe
