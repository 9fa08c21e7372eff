// The smallest whole program: four ranks in this process, FP8 weights made here, one forward pass, one row printed.

#include <bit>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "megamoe/megamoe.hpp"

namespace {

constexpr uint32_t kNumRanks = 4;
constexpr uint32_t kNumTokens = 8;  // of each rank
constexpr uint32_t kScaleBlock = 128;
constexpr megamoe::LayerShape kShape{
    .hidden = 256, .intermediate = 256, .num_experts = 16, .top_k = 4, .num_shared_experts = 0};

/// One projection with the memory that its view points into.
struct Fp8Matrix {
  std::vector<std::byte> values;
  std::vector<float> scales;
  megamoe::WeightMatrix view;
};

/// Random e4m3 numbers below 2 in magnitude (bit 6 clear, so never a NaN), with one scale for each 128 x 128 block.
Fp8Matrix make_matrix(uint32_t num_rows, uint32_t num_cols, std::mt19937& random) {
  Fp8Matrix matrix;
  matrix.values.resize(size_t{num_rows} * num_cols);
  for (std::byte& value : matrix.values) value = static_cast<std::byte>(random() & 0xBFU);
  matrix.scales.assign(size_t{num_rows / kScaleBlock} * (num_cols / kScaleBlock), 1.0F / 32);
  matrix.view = {.format = megamoe::WeightFormat::fp8_block,
                 .num_rows = num_rows,
                 .num_cols = num_cols,
                 .values = matrix.values,
                 .block_rows = kScaleBlock,
                 .block_cols = kScaleBlock,
                 .scales = std::span<const float>(matrix.scales)};
  return matrix;
}

float to_float(megamoe::Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16U); }
megamoe::Bf16 to_bf16(float value) { return {static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U)}; }

/// What one rank holds: its tokens, their experts and weights, and room for the result.
struct Rank {
  std::vector<megamoe::Bf16> x = std::vector<megamoe::Bf16>(size_t{kNumTokens} * kShape.hidden);
  std::vector<int32_t> topk_ids = std::vector<int32_t>(size_t{kNumTokens} * kShape.top_k);
  std::vector<float> topk_weights = std::vector<float>(size_t{kNumTokens} * kShape.top_k, 1.0F / kShape.top_k);
  std::vector<megamoe::Bf16> y = std::vector<megamoe::Bf16>(size_t{kNumTokens} * kShape.hidden);
  std::vector<uint32_t> local_expert_rows;
};

int report(const megamoe::Status& status) {
  std::fprintf(stderr, "minimal: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace

int main() {
  std::mt19937 random(1);

  std::vector<Fp8Matrix> matrices;
  std::vector<megamoe::ExpertWeights> experts;
  matrices.reserve(size_t{kShape.num_experts} * 2);  // the views point into the elements
  for (uint32_t expert_idx = 0; expert_idx < kShape.num_experts; ++expert_idx) {
    const Fp8Matrix& gate_up = matrices.emplace_back(make_matrix(2 * kShape.intermediate, kShape.hidden, random));
    const Fp8Matrix& down = matrices.emplace_back(make_matrix(kShape.hidden, kShape.intermediate, random));
    megamoe::ExpertWeights& expert = experts.emplace_back();
    expert.layout = megamoe::GateUpLayout::concatenated;
    expert.gate_up = gate_up.view;
    expert.down = down.view;
  }

  megamoe::Result<megamoe::Group> group = megamoe::Group::threads(kNumRanks);
  if (!group) return report(group.status());

  megamoe::LayerConfig config;
  config.shape = kShape;
  config.max_tokens_per_rank = kNumTokens;
  megamoe::Result<megamoe::Layer> layer =
      megamoe::Layer::create(config, megamoe::ArrayWeights(std::move(experts)), *group);
  if (!layer) return report(layer.status());
  matrices.clear();  // the layer has packed its own copy

  std::vector<Rank> ranks(kNumRanks);
  std::vector<megamoe::RankInput> inputs;
  std::vector<megamoe::RankOutput> outputs;
  std::normal_distribution<float> normal;
  for (uint32_t rank_idx = 0; rank_idx < kNumRanks; ++rank_idx) {
    Rank& rank = ranks[rank_idx];
    for (megamoe::Bf16& value : rank.x) value = to_bf16(normal(random));
    for (int32_t& id : rank.topk_ids) id = static_cast<int32_t>(random() % kShape.num_experts);
    rank.local_expert_rows.resize(layer->num_local_experts(rank_idx));
    inputs.push_back({.num_tokens = kNumTokens,
                      .x = std::span<const megamoe::Bf16>(rank.x),
                      .topk_ids = std::span<const int32_t>(rank.topk_ids),
                      .topk_weights = rank.topk_weights});
    outputs.push_back({.y = rank.y, .local_expert_rows = rank.local_expert_rows});
  }

  if (const megamoe::Status status = layer->run(inputs, outputs); !status.ok()) return report(status);

  std::printf("rank 0, token 0:");
  for (uint32_t col = 0; col < 8; ++col) std::printf(" %.4f", static_cast<double>(to_float(ranks[0].y[col])));
  std::printf(" ...\nrows received by the experts of rank 0:");
  uint32_t num_rows = 0;
  for (const Rank& rank : ranks) {
    for (const uint32_t count : rank.local_expert_rows) num_rows += count;
  }
  for (const uint32_t count : ranks[0].local_expert_rows) std::printf(" %u", count);
  std::printf("\nrows in all: %u of %u\n", num_rows, kNumRanks * kNumTokens * kShape.top_k);
  return num_rows == kNumRanks * kNumTokens * kShape.top_k ? 0 : 1;
}
