#pragma once

// One number that depends on the result of every kind of flow rule, computed by the same code on host and device.

#include <initializer_list>

#include "all_flow_headers.hpp"
#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace megamoe::flow_nvcc {

/// FNV-1a over 64-bit words: any changed bit changes the digest.
struct Digest {
  uint64_t bits = 0xCBF29CE484222325U;
  MM_HOST_DEVICE void add(uint64_t word) { bits = (bits ^ word) * 0x100000001B3U; }
  MM_HOST_DEVICE void add(float value) { add(uint64_t{float_bits(value)}); }
};

/// Numbers from a 32-bit linear congruence; host and device draw the same.
struct Random {
  uint32_t state = 1;
  MM_HOST_DEVICE uint32_t next() { return state = state * 1664525U + 1013904223U; }
  /// Exponents from 2^-16 to 2^15, either sign.
  MM_HOST_DEVICE float next_float() {
    const uint32_t bits = next();
    return bits_float((bits & 0x807FFFFFU) | ((111U + (next() >> 27)) << 23));
  }
};

MM_HOST_DEVICE void add_values(Random& random, Digest& digest) {
  const float value = random.next_float();
  const float other = random.next_float();
  digest.add(flow::exp_clamped(value));
  digest.add(flow::sigmoid(value));
  digest.add(flow::activate(value, other, {7.0F, 1.702F, 1.0F}));
  digest.add(flow::activate(value, other, {}));
  for (const flow::ScaleRule rule : {flow::ScaleRule::fp32, flow::ScaleRule::power_of_two}) {
    const float scale = flow::group_scale(flow::amax_term(value), rule);
    digest.add(scale);
    digest.add(uint64_t{flow::quantise(other, rcp_rn(scale))});
  }
  for (const flow::RouterWeightRule rule : {flow::RouterWeightRule::before_gemm2, flow::RouterWeightRule::at_combine}) {
    const uint16_t partial = flow::partial_value(value, other, 0.3F, rule);
    digest.add(uint64_t{partial});
    digest.add(flow::combine_add(other, partial, -1.7F, rule));
  }
  digest.add(uint64_t{e2m1_from_float(value)});
  digest.add(e8m0_to_float(static_cast<uint8_t>(random.next() >> 24)));
  digest.add(e4m3_to_float(static_cast<uint8_t>(random.next() >> 24)));
}

MM_HOST_DEVICE flow::Dims make_dims(Random& random) {
  flow::Dims dims;
  dims.num_ranks = 1 + random.next() % 8;
  dims.hidden = 16 * (1 + random.next() % 64);
  dims.intermediate = 16 * (1 + random.next() % 64);
  dims.num_experts = 1 + random.next() % 40;
  dims.num_shared = random.next() % 3;
  dims.top_k = 1 + random.next() % 6;
  dims.max_tokens = 1 + random.next() % 100;
  dims.block_m = 16U << (random.next() % 4);
  dims.gemm1_block_n = 128;
  dims.gemm2_block_n = 128;
  dims.experts_per_wave = 1 + random.next() % 5;
  return dims;
}

MM_HOST_DEVICE void add_layout(const flow::Dims& dims, Digest& digest) {
  const flow::WorkspaceLayout layout = flow::WorkspaceLayout::of(dims);
  for (uint32_t field_idx = 0; field_idx < flow::kNumFields; ++field_idx) digest.add(layout.offset[field_idx]);
  digest.add(layout.num_bytes);
  const flow::Placement placement = flow::Placement::of(dims);
  for (uint32_t expert_idx = 0; expert_idx < dims.num_all_experts(); ++expert_idx) {
    const flow::Rank owner = placement.owner(flow::Expert{expert_idx}, flow::Rank{0});
    const flow::LocalExpert local = placement.local(flow::Expert{expert_idx}, owner);
    digest.add(uint64_t{flow::num(owner)} << 32 | flow::num(local));
  }
}

MM_HOST_DEVICE void add_route(const flow::Dims& dims, Random& random, Digest& digest) {
  int32_t ids[8];
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % (dims.num_experts + 1U)) - 1;
  flow::for_each_choice(ids, dims, [&](flow::Choice choice, flow::Expert expert) {
    digest.add(uint64_t{flow::num(choice)} << 32 | flow::num(expert));
  });
  flow::CountWord word;
  const flow::Prefix prefix{word, random.next() % 100U};
  word.bits += flow::CountWord::report(prefix.num_rows);
  digest.add(word.bits);
  digest.add(uint64_t{prefix.completes(1)} + prefix.total());
}

MM_HOST_DEVICE void add_walk(const flow::Dims& dims, Random& random, Digest& digest) {
  constexpr uint32_t kMaxLocal = 43;
  uint32_t rows[kMaxLocal];
  uint32_t first_block[kMaxLocal + 1];
  for (uint32_t& count : rows) count = (random.next() >> 16) % 200U;
  const flow::PoolMap pool{rows, first_block, dims.num_local_max(), dims.block_m};
  pool.build();
  flow::TileWalk walk(dims, pool);
  flow::Tile tile;
  for (uint64_t number = 0; walk.find(number, tile); ++number) {
    digest.add(uint64_t{flow::num(tile.block)} << 32 | tile.n_block << 16 | static_cast<uint32_t>(tile.phase));
    digest.add(uint64_t{flow::num(pool.info(tile.block).expert)} << 32 | tile.num_rows);
  }
  uint32_t counts[8];
  uint32_t num_rows = 0;
  for (uint32_t rank = 0; rank < dims.num_ranks; ++rank) {
    counts[rank] = (random.next() >> 16) % 20U;
    num_rows += counts[rank];
  }
  for (uint32_t place = 0; place < num_rows; ++place) {
    const flow::PullSource source = flow::pull_source(counts, dims.num_ranks, flow::Rank{0}, place);
    digest.add(uint64_t{flow::num(source.rank)} << 32 | source.list_idx);
  }
}

/// REQUIRES any seed. Every rule is applied to inputs drawn from it.
MM_HOST_DEVICE uint64_t flow_digest(uint32_t seed) {
  Random random{seed * 2654435761U + 1U};
  Digest digest;
  for (uint32_t round = 0; round < 64; ++round) add_values(random, digest);
  const flow::Dims dims = make_dims(random);
  add_layout(dims, digest);
  add_route(dims, random, digest);
  add_walk(dims, random, digest);
  return digest.bits;
}

}  // namespace megamoe::flow_nvcc
