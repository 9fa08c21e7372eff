// combine: a token's partials, in the order of its choices, become its output row. reset: behind it, for the next call.

#include <algorithm>

#include "cpu/atomics.hpp"
#include "cpu/worker.hpp"

namespace megamoe::cpu {

using flow::Choice;
using flow::Expert;
using flow::Field;

void combine(Worker& worker) {
  const flow::Dims& dims = worker.rules.dims;
  const flow::Workspace& own = worker.local.own;
  if (worker.worker_idx == 0 && !worker.call.output->local_expert_rows.empty()) {
    std::copy_n(worker.scratch.local_rows + dims.num_shared, worker.rules.placement.num_routed(worker.local.rank),
                worker.call.output->local_expert_rows.data());
  }
  if (worker.num_tokens() == 0) return;
  const flow::Range tokens = worker.token_share();
  auto* y = reinterpret_cast<uint16_t*>(worker.call.output->y.data());
  std::visit(
      [&](const auto& ids) {
        for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
          uint32_t num_partials = 0;
          flow::for_each_choice(&ids[size_t{t} * dims.top_k], dims, [&](Choice choice, Expert) {
            const uint32_t k = num(choice);
            worker.scratch.partials[num_partials] = own.row<Field::partial>(k) + uint64_t{t} * dims.hidden;
            worker.scratch.weights[num_partials++] = k < dims.top_k ? own.row<Field::topk_weight>(t)[k] : 1.0F;
          });
          worker.rules.kernels->combine_row(worker.scratch.partials, worker.scratch.weights, num_partials, dims.hidden,
                                            worker.rules.weight_rule, y + size_t{t} * dims.hidden);
        }
      },
      worker.call.input->topk_ids);
}

namespace {

template <Field field>
void clear_share(const Worker& worker, uint32_t count) {
  const flow::Range range = flow::share(count, worker.worker_idx, worker.rules.num_workers);
  auto* elements = worker.local.own.get<field>();
  std::fill(elements + range.begin, elements + range.end, flow::Workspace::Element<field>{});
}

}  // namespace

void reset(Worker& worker) {
  // Everything that counts up during a call; lists and rows are overwritten by the next one.
  const uint32_t num_blocks = worker.pool_map().num_blocks();
  clear_share<Field::next_tile>(worker, 1);
  clear_share<Field::send_count>(worker, worker.rules.dims.num_all_experts());
  clear_share<Field::recv_total>(worker, worker.rules.dims.num_local_max());
  clear_share<Field::arrived>(worker, num_blocks);
  clear_share<Field::done_mask>(worker, num_blocks);
}

}  // namespace megamoe::cpu
