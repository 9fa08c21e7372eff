#include <fmt/format.h>

#include <array>
#include <numeric>

#include "check/case_builder.hpp"
#include "check/random.hpp"

namespace megamoe::check {
namespace {

using Layout = GateUpLayout;
using Position = RouterWeightPosition;

constexpr std::array kLayouts = {Layout::separate, Layout::concatenated, Layout::interleaved};
constexpr std::array kInputs = {InputType::bf16, InputType::fp8_f32_scales, InputType::fp8_e8m0_scales};
constexpr std::array kPositions = {Position::before_gemm2, Position::at_combine};
constexpr std::array kCommonFormats = {kFp8, kMxfp4, kBf16};
constexpr std::array<MatrixFormat, 11> kAllFormats = {
    kFp8,
    kFp8E8m0,
    MatrixFormat{.block_rows = 32, .block_cols = 32},
    MatrixFormat{.block_rows = 32, .block_cols = 32, .scale = ScaleType::e8m0},
    MatrixFormat{.block_rows = 1, .block_cols = 128},
    MatrixFormat{.block_rows = 64, .block_cols = 256},
    MatrixFormat{.block_rows = 128, .block_cols = 64, .scale = ScaleType::e8m0},
    MatrixFormat{.block_rows = 48, .block_cols = 16},
    MatrixFormat{.block_rows = 1024, .block_cols = 1024},  // one scale for the whole matrix
    kMxfp4,
    kBf16};

/// Every weight format x layout x input type.
void add_formats(CaseBuilder& builder) {
  size_t idx = 0;
  for (const MatrixFormat& format : kAllFormats) {
    for (const Layout layout : kLayouts) {
      for (const InputType input : kInputs) {
        CheckCase one = CaseBuilder::base(
            fmt::format("format/{}/{}/{}", format_name(format), layout_name(layout), input_name(input)));
        one.weights.routed = format;
        one.weights.layout = layout;
        one.input.type = input;
        one.input.ids = idx % 2 == 0 ? IdType::int32 : IdType::int64;
        one.config.activation.router_weight = kPositions[idx / 2 % 2];
        if (idx % 3 == 1) set_tokens(one, {9, 8});
        builder.add(CaseBuilder::every(8, idx++), std::move(one));
      }
    }
  }
}

/// Scales of one 128-column stretch that spread too far to fold into e4m3 exponents.
void add_scale_spreads(CaseBuilder& builder) {
  for (const uint32_t spread : {0U, 6U, 7U, 12U}) {
    for (const MatrixFormat& format :
         {kMxfp4, MatrixFormat{.block_rows = 32, .block_cols = 32, .scale = ScaleType::e8m0}}) {
      CheckCase one = CaseBuilder::base(fmt::format("scale-spread/2^{}/{}", spread, format_name(format)));
      one.weights.routed = format;
      one.weights.scale_spread = spread;
      builder.add(spread == 7 ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// Every combination of activation options.
void add_activations(CaseBuilder& builder) {
  for (uint32_t bits = 0; bits < 64; ++bits) {
    const auto flag = [&](uint32_t bit) { return (bits >> bit & 1U) != 0; };
    CheckCase one = CaseBuilder::base(fmt::format(
        "activation/{}{}{}{}{}/{}", flag(0) ? "limit" : "no-limit", flag(1) ? "-alpha" : "", flag(2) ? "-offset" : "",
        flag(3) ? "-biases" : "", flag(4) ? "-power-of-two" : "", position_name(kPositions[bits >> 5])));
    ActivationOptions& options = one.config.activation;
    if (flag(0)) options.limit = 0.75F;
    if (flag(1)) options.alpha = 1.702F;
    if (flag(2)) options.up_offset = 1.0F;
    if (flag(3)) one.weights.biases = Biases::all;
    if (flag(4)) options.scale = ActivationScale::power_of_two;
    options.router_weight = kPositions[bits >> 5];
    one.weights.routed = kCommonFormats[bits % 3];
    one.weights.layout = kLayouts[bits / 3 % 3];
    if (bits % 5 == 2) set_tokens(one, {5, 0, 11});
    builder.add(CaseBuilder::every(9, bits), std::move(one));
  }
}

void add_shared_experts(CaseBuilder& builder) {
  size_t idx = 0;
  for (const uint32_t num_shared : {1U, 2U}) {
    for (const MatrixFormat& routed : kCommonFormats) {
      for (const MatrixFormat& shared : {kFp8, kBf16}) {
        for (const Position position : kPositions) {
          CheckCase one = CaseBuilder::base(fmt::format("shared/{}/{}-{}/{}", num_shared, format_name(routed),
                                                        format_name(shared), position_name(position)));
          one.config.shape.num_shared_experts = num_shared;
          one.config.activation.router_weight = position;
          one.weights.routed = routed;
          one.weights.shared = shared;
          one.weights.layout = kLayouts[idx % 3];
          one.weights.shared_layout = kLayouts[idx / 3 % 3];
          one.weights.biases = idx % 4 == 3 ? Biases::all : Biases::none;
          one.input.routing.masked_fraction = idx % 5 == 4 ? 0.7 : 0.0;
          if (idx % 2 == 1) set_tokens(one, {7, 0, 10});
          builder.add(CaseBuilder::every(6, idx++), std::move(one));
        }
      }
    }
  }
}

void add_ranks(CaseBuilder& builder) {
  size_t idx = 0;
  for (const uint32_t num_ranks : {1U, 2U, 3U, 4U, 8U}) {
    const std::vector<uint32_t> even(num_ranks, 12);
    std::vector<uint32_t> ramp(num_ranks);
    std::iota(ramp.begin(), ramp.end(), 0U);  // rank 0 has no tokens
    std::vector<uint32_t> one_rank(num_ranks, 0);
    one_rank.back() = 33;
    for (const auto& [tokens_name, tokens] :
         {std::pair{"even", even}, std::pair{"ramp", ramp}, std::pair{"one-rank", one_rank}}) {
      for (const std::string_view routing : {"uniform", "zipf:1.4", "one:5"}) {
        CheckCase one = CaseBuilder::base(fmt::format("ranks/{}/{}/{}", num_ranks, tokens_name, routing));
        one.config.shape.num_experts = 16;
        one.config.shape.top_k = 4;
        one.config.shape.intermediate = 64;
        one.input.routing = *parse_routing(routing);
        one.weights.routed = kCommonFormats[idx % 3];
        set_tokens(one, tokens);
        builder.add(CaseBuilder::every(7, idx++), std::move(one));
      }
    }
  }
}

/// Tile sizes, waves and threads change no bit; so do instruction sets.
void add_tunings(CaseBuilder& builder) {
  size_t idx = 0;
  for (const uint32_t block_m : {16U, 32U, 64U, 128U, 256U}) {
    for (const uint32_t threads : {1U, 2U, 5U}) {
      for (const uint32_t experts_per_wave : {1U, 3U}) {
        CheckCase one = CaseBuilder::base(fmt::format("tuning/m{}-t{}-w{}", block_m, threads, experts_per_wave));
        one.config.shape.hidden = 384;
        one.config.shape.intermediate = 272;
        one.config.shape.top_k = 3;
        one.config.tuning = {.threads_per_rank = threads,
                             .block_m = block_m,
                             .gemm1_block_n = 128 * static_cast<uint32_t>(1 + idx % 3),
                             .gemm2_block_n = std::array{16U, 48U, 128U, 400U}[idx % 4],
                             .experts_per_wave = experts_per_wave};
        one.tuning_role = TuningRole::subject;
        one.weights.routed = kCommonFormats[idx % 3];
        one.input.routing = *parse_routing("zipf:1");
        set_tokens(one, idx % 2 == 0 ? std::vector<uint32_t>{31} : std::vector<uint32_t>{20, 11});
        builder.add(CaseBuilder::every(7, idx++), std::move(one));
      }
    }
  }
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16}) {
    for (const MatrixFormat& format : kAllFormats) {
      if (format.scale == ScaleType::e8m0) continue;
      CheckCase one = CaseBuilder::base(fmt::format("isa/{}/{}", to_string(isa), format_name(format)));
      one.config.shape.hidden = 208;
      one.config.shape.intermediate = 144;
      one.config.tuning.isa = isa;
      one.tuning_role = TuningRole::subject;
      one.config.activation.limit = 1.5F;
      one.weights.routed = format;
      one.weights.biases = Biases::all;
      builder.add(format.format == WeightFormat::mxfp4 ? Suite::quick : Suite::full, std::move(one));
    }
  }
}

/// Widths that are no multiple of 128, 32 or 64: last groups, blocks and tiles are short.
void add_shapes(CaseBuilder& builder) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 12> kSizes = {{{16, 16},
                                                                     {16, 256},
                                                                     {48, 32},
                                                                     {144, 144},
                                                                     {208, 96},
                                                                     {720, 720},
                                                                     {512, 16},
                                                                     {400, 208},
                                                                     {128, 128},
                                                                     {256, 336},
                                                                     {176, 512},
                                                                     {1040, 80}}};
  size_t idx = 0;
  for (const auto& [hidden, intermediate] : kSizes) {
    for (const MatrixFormat& format : {kFp8, MatrixFormat{.block_rows = 32, .block_cols = 32}, kMxfp4, kBf16}) {
      CheckCase one = CaseBuilder::base(fmt::format("shape/h{}-i{}/{}", hidden, intermediate, format_name(format)));
      one.config.shape = {.hidden = hidden, .intermediate = intermediate, .num_experts = 4, .top_k = 2};
      one.weights.routed = format;
      one.weights.layout = kLayouts[idx / 4 % 3];
      one.input.type = kInputs[idx % 3];
      set_tokens(one, {6, 5});
      builder.add(CaseBuilder::every(9, idx++), std::move(one));
    }
  }
}

/// Everything at once, drawn from the case's number.
void add_mixtures(CaseBuilder& builder) {
  constexpr uint64_t kNumMixtures = 48;
  for (uint64_t idx = 0; idx < kNumMixtures; ++idx) {
    const Stream stream(2026, idx);
    uint64_t position = 0;
    const auto draw = [&](uint64_t count) { return static_cast<uint32_t>(stream.at(position++) % count); };
    CheckCase one = CaseBuilder::base(fmt::format("mixture/{:02}", idx));
    one.config.shape = {.hidden = 16 * (1 + draw(30)),
                        .intermediate = 16 * (1 + draw(20)),
                        .num_experts = 1 + draw(24),
                        .top_k = 1 + draw(6),
                        .num_shared_experts = draw(3)};
    one.config.activation.router_weight = kPositions[draw(2)];
    one.config.activation.scale = draw(3) == 0 ? ActivationScale::power_of_two : ActivationScale::fp32;
    if (draw(2) == 0) one.config.activation.limit = 2.0F;
    one.config.tuning.threads_per_rank = draw(4);
    one.config.tuning.block_m = std::array{0U, 16U, 32U, 64U}[draw(4)];
    one.config.tuning.experts_per_wave = draw(4);
    one.weights.routed = kAllFormats[draw(kAllFormats.size())];
    one.weights.shared = kAllFormats[draw(kAllFormats.size())];
    one.weights.layout = kLayouts[draw(3)];
    one.weights.shared_layout = kLayouts[draw(3)];
    one.weights.biases = draw(2) == 0 ? Biases::all : Biases::none;
    one.input.type = kInputs[draw(3)];
    one.input.ids = draw(2) == 0 ? IdType::int64 : IdType::int32;
    one.input.routing = *parse_routing(std::array{"uniform", "zipf:1.2", "masked:0.4", "first:2"}[draw(4)]);
    std::vector<uint32_t> tokens(1 + draw(5));
    for (uint32_t& count : tokens) count = draw(14);
    set_tokens(one, tokens);
    for (uint32_t& count : tokens) count = draw(14);
    one.calls.push_back({.tokens_per_rank = tokens, .specials = {}});
    builder.add(CaseBuilder::every(12, idx), std::move(one));
  }
}

}  // namespace

void add_grid_cases(CaseBuilder& builder) {
  add_formats(builder);
  add_scale_spreads(builder);
  add_activations(builder);
  add_shared_experts(builder);
  add_ranks(builder);
  add_tunings(builder);
  add_shapes(builder);
  add_mixtures(builder);
}

}  // namespace megamoe::check
