// Dispatch, the sending half: stage_in, count (with prefix and the exchange of counts), scatter.

#include <cstring>

#include "cpu/atomics.hpp"
#include "cpu/worker.hpp"
#include "flow/count.hpp"

namespace megamoe::cpu {

using flow::Choice;
using flow::Expert;
using flow::Field;
using flow::LocalExpert;
using flow::Rank;
using flow::Token;

namespace {

/// Calls visit(token, choice, expert) for the worker's share of this rank's tokens.
template <class Visit>
void for_each_slot(const Worker& worker, Visit&& visit) {
  if (worker.num_tokens() == 0) return;
  const flow::Range tokens = worker.token_share();
  std::visit(
      [&](const auto& ids) {
        for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
          flow::for_each_choice(&ids[size_t{t} * worker.rules.dims.top_k], worker.rules.dims,
                                [&](Choice choice, Expert expert) { visit(Token{t}, choice, expert); });
        }
      },
      worker.call.input->topk_ids);
}

/// FP8 rows are taken as they are; only the scales may change their type.
void copy_fp8_row(const Fp8Activations& x, uint32_t token, const flow::Dims& dims, uint8_t* codes, float* scales) {
  std::memcpy(codes, &x.values[size_t{token} * dims.hidden], dims.hidden);
  const size_t first = size_t{token} * dims.hidden_groups();
  if (const auto* fp32 = std::get_if<std::span<const float>>(&x.scales)) {
    std::memcpy(scales, &(*fp32)[first], dims.hidden_groups() * sizeof(float));
    return;
  }
  const auto& powers = std::get<std::span<const E8m0>>(x.scales);
  for (uint32_t g = 0; g < dims.hidden_groups(); ++g) scales[g] = e8m0_to_float(powers[first + g].bits);
}

/// The worker whose report made the word final passes the total on: to the owner's list of counts, then to its sum.
void exchange_count(const Worker& worker, Expert expert, uint32_t total) {
  const Rank me = worker.local.rank;
  const Rank owner = worker.rules.placement.owner(expert, me);
  const uint32_t local = num(worker.rules.placement.local(expert, owner));
  const flow::Workspace there = worker.local.peers.at(owner);
  there.row<Field::recv_count>(local)[num(me)] = total;
  fetch_add(&there.get<Field::recv_total>()[local], flow::CountWord::report(total));  // publish(recv_total)
}

}  // namespace

void stage_in(Worker& worker) {
  const flow::Workspace& own = worker.local.own;
  const flow::Dims& dims = worker.rules.dims;
  const flow::Range tokens = worker.token_share();
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    uint8_t* codes = own.row<Field::x>(t);
    float* scales = own.row<Field::x_scale>(t);
    if (const auto* bf16 = std::get_if<std::span<const Bf16>>(&worker.call.input->x)) {
      const auto* row = reinterpret_cast<const uint16_t*>(bf16->data()) + size_t{t} * dims.hidden;
      worker.rules.kernels->quantise_row(row, dims.hidden, worker.rules.scale_rule, codes, scales);
    } else {
      copy_fp8_row(std::get<Fp8Activations>(worker.call.input->x), t, dims, codes, scales);
    }
    std::memcpy(own.row<Field::topk_weight>(t), &worker.call.input->topk_weights[size_t{t} * dims.top_k],
                dims.top_k * sizeof(float));
  }
}

void count(Worker& worker) {
  const uint32_t num_experts = worker.rules.dims.num_all_experts();
  uint32_t* counts = worker.scratch.expert_counts;
  std::memset(counts, 0, num_experts * sizeof(uint32_t));
  for_each_slot(worker, [&](Token, Choice, Expert expert) { ++counts[num(expert)]; });

  // prefix: the add reports this worker's share and returns where it begins.
  auto* words = worker.local.own.get<Field::send_count>();
  for (uint32_t e = 0; e < num_experts; ++e) {
    const uint64_t before = fetch_add(&words[e], flow::CountWord::report(counts[e]));
    const flow::Prefix prefix{{before}, counts[e]};
    counts[e] = prefix.base();
    if (prefix.completes(worker.rules.num_workers)) exchange_count(worker, Expert{e}, prefix.total());
  }
}

void scatter(Worker& worker) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Placement& placement = worker.rules.placement;
  const Rank me = worker.local.rank;
  uint32_t* next = worker.scratch.expert_counts;
  for_each_slot(worker, [&](Token token, Choice choice, Expert expert) {
    const Rank owner = placement.owner(expert, me);
    const uint64_t list = uint64_t{num(placement.local(expert, owner))} * dims.num_ranks + num(me);
    uint32_t* slots = worker.local.peers.at(owner).get<Field::source_slot>() + list * dims.source_list_slots();
    slots[next[num(expert)]++] = num(flow::make_slot(token, choice, dims));
  });
}

}  // namespace megamoe::cpu
