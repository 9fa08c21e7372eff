#include "check/stages/stage_case.hpp"

namespace megamoe::stages {
namespace {

flow::Dims dims_of(uint32_t num_ranks, uint32_t hidden, uint32_t num_experts, uint32_t top_k, uint32_t max_tokens) {
  return {.num_ranks = num_ranks,
          .hidden = hidden,
          .intermediate = 128,
          .num_experts = num_experts,
          .top_k = top_k,
          .max_tokens = max_tokens,
          .block_m = 8,
          .gemm1_block_n = 128,
          .gemm2_block_n = 16,
          .experts_per_wave = 1};
}

flow::Dims with_shared(flow::Dims dims, uint32_t num_shared) {
  dims.num_shared = num_shared;
  return dims;
}

flow::Dims large_dims(uint32_t num_ranks, uint32_t hidden, uint32_t num_experts, uint32_t top_k, uint32_t max_tokens) {
  flow::Dims dims = dims_of(num_ranks, hidden, num_experts, top_k, max_tokens);
  dims.block_m = 128;
  return dims;
}

}  // namespace

std::vector<StageCase> stage_cases() {
  return {
      {.name = "one_rank", .dims = dims_of(1, 48, 4, 2, 12), .num_tokens = {{12}, {1}, {5}}},
      {.name = "one_rank_wide_rows",
       .dims = dims_of(1, 256, 3, 2, 6),
       .row_format = RowFormat::fp8_fp32_scales,
       .num_blocks = 3,
       .num_threads = 96,
       .num_tokens = {{6}, {3}}},
      {.name = "short_last_scale_group",
       .dims = dims_of(2, 144, 4, 2, 6),
       .scale_rule = flow::ScaleRule::power_of_two,
       .num_tokens = {{6, 5}, {2, 6}}},
      {.name = "uneven_experts",
       .dims = dims_of(3, 32, 7, 3, 8),
       .row_format = RowFormat::fp8_e8m0_scales,
       .id_format = IdFormat::int32,
       .num_tokens = {{8, 3, 5}, {1, 8, 0}}},
      {.name = "masked_ids",
       .dims = dims_of(2, 32, 6, 4, 10),
       .routing = Routing::masked,
       .weight_rule = flow::RouterWeightRule::at_combine,
       .num_tokens = {{10, 7}, {3, 10}}},
      {.name = "skewed_over_four_ranks",
       .dims = dims_of(4, 32, 8, 2, 10),
       .routing = Routing::skewed,
       .row_format = RowFormat::fp8_fp32_scales,
       .num_tokens = {{10, 9, 1, 6}, {2, 10, 10, 0}}},
      {.name = "one_expert_takes_all",
       .dims = dims_of(3, 16, 4, 2, 9),
       .routing = Routing::one_expert,
       .num_tokens = {{9, 9, 9}, {1, 0, 2}}},
      {.name = "shared_experts",
       .dims = with_shared(dims_of(2, 32, 4, 2, 8), 2),
       .weight_rule = flow::RouterWeightRule::at_combine,
       .num_tokens = {{8, 5}, {0, 3}}},
      {.name = "no_tokens_anywhere", .dims = dims_of(2, 32, 4, 2, 8), .num_tokens = {{0, 0}, {4, 0}, {0, 0}}},
      {.name = "scales_in_whole_pieces",
       .dims = dims_of(2, 512, 4, 2, 5),
       .num_blocks = 1,
       .num_threads = 32,
       .num_tokens = {{5, 4}, {1, 0}}},
      {.name = "fewer_experts_than_ranks",
       .dims = dims_of(4, 16, 3, 1, 6),
       .num_blocks = 1,
       .num_threads = 128,
       .num_tokens = {{6, 2, 0, 6}}},
      {.name = "eight_ranks",
       .dims = dims_of(8, 16, 16, 2, 4),
       .id_format = IdFormat::int32,
       .num_tokens = {{4, 3, 4, 0, 1, 4, 2, 4}, {1, 1, 0, 4, 0, 0, 1, 1}}},
  };
}

std::vector<StageCase> large_stage_cases() {
  return {
      {.name = "large/v4_flash",
       .dims = large_dims(2, 4096, 256, 6, 128),
       .num_blocks = 16,
       .num_threads = 512,
       .num_tokens = {{128, 100}, {1, 0}, {128, 128}}},
      {.name = "large/v3_eight_ranks",
       .dims = large_dims(8, 7168, 256, 8, 16),
       .row_format = RowFormat::fp8_fp32_scales,
       .num_blocks = 8,
       .num_threads = 512,
       .num_tokens = {{16, 16, 0, 16, 3, 16, 16, 1}, {1, 2, 3, 4, 5, 6, 7, 8}}},
      {.name = "large/gpt_oss_skewed",
       .dims = large_dims(4, 2880, 32, 4, 64),
       .routing = Routing::skewed,
       .id_format = IdFormat::int32,
       .num_blocks = 20,
       .num_threads = 512,
       .num_tokens = {{64, 64, 64, 64}, {0, 64, 0, 1}}},
      {.name = "large/one_rank_all_sms",
       .dims = with_shared(large_dims(1, 4096, 32, 6, 256), 1),
       .routing = Routing::masked,
       .num_blocks = 120,
       .num_threads = 512,
       .num_tokens = {{256}, {7}, {256}}},
  };
}

}  // namespace megamoe::stages
