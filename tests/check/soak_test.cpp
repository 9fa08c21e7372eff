#include "check/soak.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "check/case_layer.hpp"
#include "check/soak_draw.hpp"

namespace megamoe {
namespace {

constexpr uint64_t kNumDrawn = 400;

TEST(Soak, TwentyCallsOnTheCpuAgreeWithOtherThreads) {
  uint64_t num_done = 0;
  const Result<SoakReport> report =
      soak({.backend = Backend::cpu, .seed = 1, .num_calls = 20}, [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(done, ++num_done);
        EXPECT_EQ(total, 20U);
      });
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->finding, "");
  EXPECT_EQ(report->num_calls, 20U);
  EXPECT_EQ(num_done, 20U);
  EXPECT_GE(report->num_layers, 1U);
  EXPECT_GT(report->num_rows, 0U);
  EXPECT_GT(report->worst_row_error, 0.0);
}

TEST(Soak, SaysWhatIsMissingWithoutTheBackend) {
  const Result<SoakReport> report = soak({.backend = Backend::sm100, .num_calls = 3}, {});
  EXPECT_EQ(report.status().code(), StatusCode::unsupported);
}

/// The first layer from `seed` on whose first call has tokens, most of them with experts.
check::SoakLayer plain_layer(uint64_t seed) {
  check::SoakLayer layer = check::draw_soak_layer(Backend::cpu, seed);
  while (check::draw_soak_call(layer, 0).input.routing.masked_fraction > 0.3 ||
         std::ranges::max(check::draw_soak_call(layer, 0).tokens_per_rank) == 0) {
    layer = check::draw_soak_layer(Backend::cpu, ++seed);
  }
  return layer;
}

std::string finding_of(const check::SoakLayer& layer, SoakReport& report) {
  const Result<std::string> finding = check::soak_layer(layer, 4, report, [] {});
  return finding.ok() ? *finding : finding.status().to_string();
}

TEST(Soak, FindsAPeerWithOtherBits) {
  check::SoakLayer layer = plain_layer(1);
  SoakReport report;
  EXPECT_EQ(finding_of(layer, report), "");
  EXPECT_EQ(report.num_calls, 4U);
  layer.peer.activation.alpha *= 1.5F;
  report = {};
  const std::string finding = finding_of(layer, report);
  EXPECT_EQ(report.num_calls, 1U);
  EXPECT_NE(finding.find("call 1: row "), std::string::npos) << finding;
  EXPECT_NE(finding.find("on cpu with"), std::string::npos) << finding;
  EXPECT_NE(finding.find("--soak 1 --seed " + std::to_string(layer.seed)), std::string::npos) << finding;
}

TEST(Soak, ForcedStrategyOnTheCpuIsAnError) {
  check::SoakLayer layer = plain_layer(1);
  layer.tested.tuning.strategy = Strategy::pingpong;
  SoakReport report;
  const Result<std::string> finding = check::soak_layer(layer, 1, report, [] {});
  EXPECT_EQ(finding.status().code(), StatusCode::unsupported);
}

TEST(Soak, LayersCoverRanksStrategiesFormatsAndOptions) {
  std::set<uint32_t> ranks;
  std::set<Strategy> strategies;
  std::set<ScaleType> scales;
  std::set<uint32_t> shared;
  std::set<bool> has_biases, has_limit, has_offset, is_at_combine, is_peer_plain;
  for (uint64_t seed = 1; seed <= kNumDrawn; ++seed) {
    const check::SoakLayer layer = check::draw_soak_layer(Backend::sm90, seed);
    ranks.insert(layer.num_ranks);
    strategies.insert(layer.tested.tuning.strategy);
    scales.insert(layer.weights.routed.scale);
    shared.insert(layer.tested.shape.num_shared_experts);
    has_biases.insert(layer.weights.biases == Biases::all);
    has_limit.insert(layer.tested.activation.limit.has_value());
    has_offset.insert(layer.tested.activation.up_offset != 0);
    is_at_combine.insert(layer.tested.activation.router_weight == RouterWeightPosition::at_combine);
    is_peer_plain.insert(layer.num_peer_ranks < layer.num_ranks);
    EXPECT_EQ(layer.peer.backend, Backend::chain);
    EXPECT_NE(layer.peer.tuning.strategy, layer.tested.tuning.strategy);
  }
  EXPECT_EQ(ranks.size(), 8U);
  EXPECT_EQ(strategies.size(), 4U);
  EXPECT_EQ(scales.size(), 2U);
  EXPECT_EQ(shared.size(), 3U);
  for (const auto* both : {&has_biases, &has_limit, &has_offset, &is_at_combine, &is_peer_plain}) {
    EXPECT_EQ(both->size(), 2U);
  }
}

TEST(Soak, CallsOfALayerDifferAndFitIt) {
  std::set<InputType> types;
  std::set<RoutingKind> kinds;
  std::set<double> masks;
  uint32_t num_empty = 0;
  uint32_t num_special = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const check::SoakLayer layer = check::draw_soak_layer(Backend::cpu, seed);
    EXPECT_NE(layer.tested.tuning.threads_per_rank, layer.peer.tuning.threads_per_rank);
    std::set<uint64_t> input_seeds;
    for (uint32_t call_idx = 0; call_idx < layer.num_calls; ++call_idx) {
      const check::SoakCall call = check::draw_soak_call(layer, call_idx);
      ASSERT_EQ(call.tokens_per_rank.size(), layer.num_ranks);
      EXPECT_LE(std::ranges::max(call.tokens_per_rank), layer.tested.max_tokens_per_rank);
      const uint32_t num_tokens = std::accumulate(call.tokens_per_rank.begin(), call.tokens_per_rank.end(), 0U);
      const uint32_t peer_tokens = layer.num_peer_ranks == layer.num_ranks ? 0 : num_tokens;
      EXPECT_LE(peer_tokens, layer.peer.max_tokens_per_rank);
      num_empty += num_tokens == 0 ? 1 : 0;
      num_special += call.input.specials.empty() ? 0 : 1;
      types.insert(call.input.type);
      kinds.insert(call.input.routing.kind);
      masks.insert(call.input.routing.masked_fraction);
      input_seeds.insert(call.input.seed);
    }
    EXPECT_EQ(input_seeds.size(), layer.num_calls);
  }
  EXPECT_EQ(types.size(), 3U);
  EXPECT_EQ(kinds.size(), 4U);
  EXPECT_EQ(masks.size(), 4U);
  EXPECT_GT(num_empty, 0U);
  EXPECT_GT(num_special, 20U);
}

TEST(Soak, ALayerComesAgainFromItsSeedAlone) {
  const check::SoakLayer first = check::draw_soak_layer(Backend::cpu, 77);
  const check::SoakLayer again = check::draw_soak_layer(Backend::cpu, 77);
  EXPECT_EQ(first.description(), again.description());
  const check::SoakCall one = check::draw_soak_call(first, 3);
  const check::SoakCall same = check::draw_soak_call(again, 3);
  EXPECT_EQ(one.tokens_per_rank, same.tokens_per_rank);
  EXPECT_EQ(one.input.seed, same.input.seed);
  EXPECT_NE(first.description(), check::draw_soak_layer(Backend::cpu, 78).description());
}

TEST(CompareBits, NamesTheFirstRowThatDiffers) {
  const std::vector<Bf16> a = {Bf16{1}, Bf16{2}, Bf16{3}, Bf16{4}};
  std::vector<Bf16> b = a;
  EXPECT_EQ(check::compare_bits(a, b, 2, {}, "there"), "");
  b[3] = Bf16{0x3F80};
  EXPECT_EQ(check::compare_bits(a, b, 2, {}, "there"), "row 1 column 1 has bits 0x0004 but 0x3f80 there");
  const std::vector<SpecialToken> except = {{.token_idx = 1}};
  EXPECT_EQ(check::compare_bits(a, b, 2, except, "there"), "");
}

TEST(CompareBits, RowsThatNeitherWroteDiffer) {
  const std::vector<Bf16> a(4, check::kUnwritten);
  const std::vector<Bf16> b(4, check::kOtherUnwritten);
  EXPECT_NE(check::compare_bits(a, b, 2, {}, "there"), "");
}

}  // namespace
}  // namespace megamoe
