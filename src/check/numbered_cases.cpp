#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "check/case_builder.hpp"

namespace megamoe::check {
namespace {

constexpr std::array kLayouts = {GateUpLayout::separate, GateUpLayout::concatenated, GateUpLayout::interleaved};
constexpr std::array kFormats = {kFp8, kMxfp4, kBf16};
constexpr std::array kInputs = {InputType::bf16, InputType::fp8_f32_scales, InputType::fp8_e8m0_scales};
constexpr std::array kPositions = {RouterWeightPosition::before_gemm2, RouterWeightPosition::at_combine};

/// Shares `num_tokens` among ranks as evenly as they go.
std::vector<uint32_t> shared_out(uint32_t num_tokens, uint32_t num_ranks) {
  std::vector<uint32_t> tokens(num_ranks, num_tokens / num_ranks);
  for (uint32_t rank = 0; rank < num_tokens % num_ranks; ++rank) ++tokens[rank];
  return tokens;
}

/// 1: repeated expert in one token.
void add_repeated_experts(CaseBuilder& builder) {
  for (const uint32_t num_tokens : {1U, 16U, 256U}) {
    for (const uint32_t num_ranks : {1U, 4U}) {
      CheckCase one = CaseBuilder::base(fmt::format("case01/repeated-expert/t{}-r{}", num_tokens, num_ranks));
      one.config.shape = {.hidden = 128, .intermediate = 64, .num_experts = 16, .top_k = 8};
      one.input.routing.ids = {3, 3, 7, 7, 1, 1, 0, 0};
      set_tokens(one, shared_out(num_tokens, num_ranks));
      builder.add(num_tokens == 16 ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// 3: "no expert" slots.
void add_masks(CaseBuilder& builder) {
  for (const uint32_t num_ranks : {1U, 4U}) {
    CheckCase half = CaseBuilder::base(fmt::format("case03/half-masked/r{}", num_ranks));
    half.config.shape.top_k = 4;
    half.input.routing.masked_fraction = 0.5;
    set_tokens(half, shared_out(31, num_ranks));
    builder.add(Suite::quick, std::move(half));

    CheckCase token = CaseBuilder::base(fmt::format("case03/one-token-masked/r{}", num_ranks));
    token.input.routing.ids = {0, 1, 5, 2, -1, -1, 3, 7, 6, 4};
    set_tokens(token, shared_out(15, num_ranks));
    builder.add(Suite::full, std::move(token));

    CheckCase all = CaseBuilder::base(fmt::format("case03/all-masked/r{}", num_ranks));
    all.input.routing.ids = {-1};
    set_tokens(all, shared_out(15, num_ranks));
    builder.add(Suite::full, std::move(all));

    CheckCase shared = CaseBuilder::base(fmt::format("case03/all-masked-with-shared-expert/r{}", num_ranks));
    shared.config.shape.num_shared_experts = 1;
    shared.input.routing.ids = {-1};
    set_tokens(shared, shared_out(15, num_ranks));
    builder.add(Suite::full, std::move(shared));
  }
  CheckCase rank = CaseBuilder::base("case03/one-rank-masked");
  set_tokens(rank, {4, 4, 4, 4});
  for (int64_t slot = 0; slot < 32; ++slot) rank.input.routing.ids.push_back(slot / 8 == 2 ? -1 : slot * 5 % 8);
  builder.add(Suite::quick, std::move(rank));
}

/// 4: expert boundary inside a tile; every expert's weights are one number of its own.
void add_boundaries(CaseBuilder& builder) {
  const std::array<std::array<uint32_t, 3>, 2> all_counts = {{{128, 130, 65}, {70, 0, 70}}};
  for (const auto& counts : all_counts) {
    for (const uint32_t block_m : {16U, 64U, 128U, 256U}) {
      for (const MatrixFormat& format : kFormats) {
        CheckCase one = CaseBuilder::base(fmt::format("case04/boundary-{}-{}-{}/m{}/{}", counts[0], counts[1],
                                                      counts[2], block_m, format_name(format)));
        one.config.shape = {.hidden = 64, .intermediate = 32, .num_experts = 3, .top_k = 1};
        one.config.tuning.block_m = block_m;
        one.weights.routed = format;
        one.weights.fill = WeightFill::constant_per_expert;
        one.input.mean = 1.0F;
        for (uint32_t expert_idx = 0; expert_idx < 3; ++expert_idx) {
          one.input.routing.ids.insert(one.input.routing.ids.end(), counts[expert_idx], expert_idx);
        }
        const auto num_tokens = static_cast<uint32_t>(one.input.routing.ids.size());
        set_tokens(one, shared_out(num_tokens, block_m == 64 ? 2 : 1));
        builder.add(block_m == 64 && format.format == WeightFormat::fp8_block ? Suite::quick : Suite::full,
                    std::move(one));
      }
    }
  }
}

/// 5: gate/up order. 7: router weights used as given.
void add_orders(CaseBuilder& builder) {
  for (const GateUpLayout layout : kLayouts) {
    for (const MatrixFormat& format : kFormats) {
      CheckCase one =
          CaseBuilder::base(fmt::format("case05/gate-one-up-two/{}/{}", layout_name(layout), format_name(format)));
      one.weights.routed = format;
      one.weights.layout = layout;
      one.weights.fill = WeightFill::gate_one_up_two;
      one.input.mean = 0.5F;
      builder.add(format.format == WeightFormat::mxfp4 ? Suite::quick : Suite::full, std::move(one));
    }
  }
  for (const RouterWeightPosition position : kPositions) {
    for (const MatrixFormat& format : kFormats) {
      CheckCase one =
          CaseBuilder::base(fmt::format("case07/verbatim-weights/{}/{}", position_name(position), format_name(format)));
      one.config.shape.top_k = 4;
      one.config.activation.router_weight = position;
      one.weights.routed = format;
      one.weights.biases = Biases::all;
      one.input.routing.router_weights = {-3.2F, 0.0F, 7.5F, 0.1F};
      set_tokens(one, {8, 9});
      builder.add(format.format == WeightFormat::fp8_block ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// 9: amax 0.
void add_zeros(CaseBuilder& builder) {
  for (const InputType input : kInputs) {
    for (const MatrixFormat& format : kFormats) {
      CheckCase one = CaseBuilder::base(fmt::format("case09/zeros/{}/{}", input_name(input), format_name(format)));
      one.weights.routed = format;
      one.weights.fill = WeightFill::zero_block;
      one.input.type = input;
      set_tokens(one, {9, 9});
      one.calls[0].specials = {{.token_idx = 2, .value = SpecialValue::zero_row},
                               {.token_idx = 11, .value = SpecialValue::zero_group},
                               {.token_idx = 13, .value = SpecialValue::tiny}};
      builder.add(input == InputType::bf16 ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// 11: E8M0 extremes.
void add_e8m0_extremes(CaseBuilder& builder) {
  constexpr std::array<std::pair<uint32_t, WeightFill>, 4> kBytes = {{{0, WeightFill::scale_byte_0},
                                                                      {1, WeightFill::scale_byte_1},
                                                                      {254, WeightFill::scale_byte_254},
                                                                      {255, WeightFill::scale_byte_255}}};
  for (const auto& [byte, fill] : kBytes) {
    for (const MatrixFormat& format :
         {kFp8E8m0, MatrixFormat{.block_rows = 32, .block_cols = 32, .scale = ScaleType::e8m0}, kMxfp4}) {
      CheckCase one = CaseBuilder::base(fmt::format("case11/scale-byte-{}/{}", byte, format_name(format)));
      one.weights.routed = format;
      one.weights.fill = fill;
      if (byte == 254) {
        one.input.type = InputType::fp8_e8m0_scales;
        one.input.tiny_e8m0_scales = true;
      }
      builder.add(format.format == WeightFormat::mxfp4 ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// 13: the width of the accumulator, where errors of one sign add up.
void add_accumulator_width(CaseBuilder& builder) {
  for (const MatrixFormat& format : {kFp8, kFp8E8m0, kMxfp4, kBf16}) {
    CheckCase one = CaseBuilder::base(fmt::format("case13/accumulator-width/{}", format_name(format)));
    one.config.shape = {.hidden = 7168, .intermediate = 128, .num_experts = 2, .top_k = 1};
    one.weights.routed = format;
    one.input.mean = 1.0F;
    set_tokens(one, {6});
    builder.add(format.format == WeightFormat::fp8_block && format.scale == ScaleType::f32 ? Suite::quick : Suite::full,
                std::move(one));
  }
}

/// 14: padding and poison. The second call finds in the workspace what the first one left.
void add_poison(CaseBuilder& builder) {
  for (const InputType input : kInputs) {
    for (const MatrixFormat& format : kFormats) {
      CheckCase one = CaseBuilder::base(fmt::format("case14/poison/{}/{}", input_name(input), format_name(format)));
      one.weights.routed = format;
      one.input.type = input;
      one.input.routing = *parse_routing("one:3");
      one.config.shape.top_k = 1;
      set_tokens(one, {33});
      one.calls.push_back(one.calls[0]);
      one.calls[0].specials = {{.token_idx = 0, .value = SpecialValue::nan},
                               {.token_idx = 16, .value = SpecialValue::inf},
                               {.token_idx = 20, .value = SpecialValue::huge},
                               {.token_idx = 32, .value = SpecialValue::nan_scale}};
      builder.add(format.format == WeightFormat::fp8_block ? Suite::quick : Suite::full, std::move(one));
    }
  }
  CheckCase spread = CaseBuilder::base("case14/poison-over-ranks");
  spread.config.shape.top_k = 3;
  spread.config.shape.num_shared_experts = 1;
  set_tokens(spread, {10, 11, 12});
  spread.calls[0].specials = {{.token_idx = 4, .value = SpecialValue::nan},
                              {.token_idx = 25, .value = SpecialValue::inf}};
  builder.add(Suite::quick, std::move(spread));
}

/// 24: calls of different size on one workspace. 25: zero tokens.
void add_call_sequences(CaseBuilder& builder) {
  for (const uint32_t num_ranks : {1U, 2U, 3U}) {
    CheckCase one = CaseBuilder::base(fmt::format("case24/calls-of-different-size/r{}", num_ranks));
    one.config.shape = {.hidden = 128, .intermediate = 64, .num_experts = 6, .top_k = 2};
    set_tokens(one, shared_out(244, num_ranks));
    for (const uint32_t num_tokens : {1U, 64U, 0U, 244U}) {
      one.calls.push_back({.tokens_per_rank = shared_out(num_tokens, num_ranks), .specials = {}});
    }
    builder.add(num_ranks == 2 ? Suite::quick : Suite::full, std::move(one));
  }
  CheckCase zeros = CaseBuilder::base("case25/zero-tokens");
  zeros.config.shape = {.hidden = 128, .intermediate = 64, .num_experts = 8, .top_k = 2};
  set_tokens(zeros, {0, 128, 128, 128});
  zeros.calls.push_back({.tokens_per_rank = {0, 0, 0, 0}, .specials = {}});
  zeros.calls.push_back({.tokens_per_rank = {5, 6, 0, 7}, .specials = {}});
  builder.add(Suite::quick, std::move(zeros));

  CheckCase idle = CaseBuilder::base("case25/no-local-expert-chosen");
  idle.input.routing = *parse_routing("first:2");  // rank 0's experts: the other ranks receive nothing
  set_tokens(idle, {9, 9, 9, 9});
  builder.add(Suite::full, std::move(idle));
}

/// 30: experts that do not divide by the ranks. 31: odd shapes.
void add_uneven(CaseBuilder& builder) {
  size_t idx = 0;
  for (const auto& [num_experts, num_ranks] : std::array<std::pair<uint32_t, uint32_t>, 8>{
           {{256, 3}, {30, 8}, {3, 8}, {1, 4}, {7, 3}, {5, 2}, {9, 8}, {2, 3}}}) {
    CheckCase one = CaseBuilder::base(fmt::format("case30/e{}-r{}", num_experts, num_ranks));
    one.config.shape = {
        .hidden = 64, .intermediate = 32, .num_experts = num_experts, .top_k = std::min(num_experts, 4U)};
    one.weights.routed = kFormats[idx % 3];
    set_tokens(one, shared_out(50, num_ranks));
    builder.add(CaseBuilder::every(2, idx++), std::move(one));
  }
  for (const uint32_t top_k : {1U, 3U, 5U, 8U, 32U}) {
    for (const uint32_t num_tokens : {1U, 3U, 33U}) {
      CheckCase one = CaseBuilder::base(fmt::format("case31/k{}-t{}", top_k, num_tokens));
      one.config.shape = {.hidden = 128, .intermediate = 64, .num_experts = 12, .top_k = top_k};
      one.weights.routed = kFormats[idx % 3];
      set_tokens(one, shared_out(num_tokens, top_k == 3 ? 2 : 1));
      builder.add(CaseBuilder::every(4, idx++), std::move(one));
    }
  }
  for (const uint32_t num_ranks : {1U, 2U}) {
    CheckCase one = CaseBuilder::base(fmt::format("case31/one-expert/r{}", num_ranks));
    one.config.shape.num_experts = 1;
    one.config.shape.top_k = 1;
    set_tokens(one, shared_out(7, num_ranks));
    builder.add(Suite::full, std::move(one));
  }
}

/// 40: more threads than experts.
void add_many_threads(CaseBuilder& builder) {
  CheckCase one = CaseBuilder::base("case40/more-threads-than-experts");
  one.config.shape.num_experts = 2;
  one.config.tuning.threads_per_rank = 7;
  set_tokens(one, {20, 3});
  builder.add(Suite::full, std::move(one));
}

}  // namespace

void add_numbered_cases(CaseBuilder& builder) {
  add_repeated_experts(builder);
  add_masks(builder);
  add_boundaries(builder);
  add_orders(builder);
  add_zeros(builder);
  add_e8m0_extremes(builder);
  add_accumulator_width(builder);
  add_poison(builder);
  add_call_sequences(builder);
  add_uneven(builder);
  add_many_threads(builder);
}

}  // namespace megamoe::check
