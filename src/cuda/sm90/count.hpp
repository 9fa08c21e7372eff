#pragma once

// count, prefix and scatter: the sending half of dispatch. A block counts its slots per expert in shared memory, one
// atomic add per expert reports them and returns where they begin in the owner's list, and a second walk over the same
// slots writes them there, straight over the link.

#include "cuda/sm90/worker.hpp"
#include "flow/count.hpp"

namespace megamoe::sm90 {

/// Calls visit(token, choice, expert) for every slot of the block's share of tokens that names an expert; a thread
/// takes every num_threads-th slot.
template <class Visit>
MM_DEVICE void for_each_slot(const Worker& worker, Visit&& visit) {
  const flow::Dims& dims = worker.arguments.dims;
  const flow::Range tokens = worker.token_share();
  const uint32_t num_slots = tokens.size() * dims.num_choices();
  for (uint32_t i = simt::thread_idx(); i < num_slots; i += simt::num_threads()) {
    const flow::Token token{tokens.begin + i / dims.num_choices()};
    const flow::Choice choice{i % dims.num_choices()};
    const int64_t expert = flow::choice_expert(ids_of(worker.arguments, token), choice, dims);
    if (expert != flow::kNoExpert) visit(token, choice, flow::Expert{static_cast<uint32_t>(expert)});
  }
}

/// ENSURES expert_next holds the block's slots per expert.
MM_DEVICE void count(const Worker& worker) {
  const uint32_t num_experts = worker.arguments.dims.num_all_experts();
  uint32_t* counts = worker.shared.expert_next;
  for (uint32_t e = simt::thread_idx(); e < num_experts; e += simt::num_threads()) simt::store(counts + e, 0U);
  simt::sync_threads();
  for_each_slot(worker, [&](flow::Token, flow::Choice, flow::Expert expert) {
    (void)ptx::shared_atom_add(counts + num(expert), 1U);
  });
  simt::sync_threads();
}

/// The block whose report made the word final passes the total on: to the owner's list of counts and to its sum. The
/// exchange barrier orders both before their readers.
MM_DEVICE void exchange_count(const Arguments& arguments, flow::Expert expert, uint32_t total) {
  const flow::Placement placement = arguments.placement();
  const flow::Rank owner = placement.owner(expert, arguments.rank);
  const uint32_t local = num(placement.local(expert, owner));
  const flow::Workspace there = arguments.peers().at(owner);
  simt::store(there.row<flow::Field::recv_count>(local) + num(arguments.rank), total);
  uint64_t* sum = there.get<flow::Field::recv_total>() + local;
  ptx::red_add<ptx::Order::relaxed, ptx::Scope::sys>(sum, flow::CountWord::report(total));
}

/// ENSURES expert_next holds where the block's slots begin in each expert's list.
MM_DEVICE void prefix(const Worker& worker) {
  const uint32_t num_experts = worker.arguments.dims.num_all_experts();
  uint64_t* words = worker.arguments.own().get<flow::Field::send_count>();
  for (uint32_t e = simt::thread_idx(); e < num_experts; e += simt::num_threads()) {
    const uint32_t num_slots = simt::load(worker.shared.expert_next + e);
    // Relaxed: the word itself is all that is told.
    const uint64_t before =
        ptx::atom_add<ptx::Order::relaxed, ptx::Scope::gpu>(words + e, flow::CountWord::report(num_slots));
    const flow::Prefix mine{{before}, num_slots};
    simt::store(worker.shared.expert_next + e, mine.base());
    if (mine.completes(worker.num_workers)) exchange_count(worker.arguments, flow::Expert{e}, mine.total());
  }
  simt::sync_threads();
}

/// Lists are sets: which of the block's slots comes first is up to the threads.
MM_DEVICE void scatter(const Worker& worker) {
  const Arguments& arguments = worker.arguments;
  const flow::Dims& dims = arguments.dims;
  const flow::Placement placement = arguments.placement();
  for_each_slot(worker, [&](flow::Token token, flow::Choice choice, flow::Expert expert) {
    const flow::Rank owner = placement.owner(expert, arguments.rank);
    const uint64_t list = uint64_t{num(placement.local(expert, owner))} * dims.num_ranks + num(arguments.rank);
    uint32_t* slots = arguments.peers().at(owner).get<flow::Field::source_slot>() + list * dims.source_list_slots();
    const uint32_t place = ptx::shared_atom_add(worker.shared.expert_next + num(expert), 1U);
    simt::store(slots + place, num(flow::make_slot(token, choice, dims)));
  });
}

}  // namespace megamoe::sm90
