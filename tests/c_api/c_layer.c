#include "c_layer.h"

static mm_status copy_expert(void* user, mm_expert_kind kind, uint32_t expert_idx, mm_expert_weights* weights) {
  const c_layer_case* c = user;
  if (weights->struct_bytes != sizeof(*weights)) return MM_INTERNAL;
  *weights = kind == MM_EXPERT_ROUTED ? c->routed[expert_idx] : c->shared[expert_idx];
  return MM_OK;
}

static mm_status create_layer(const c_layer_case* c, const mm_group* group, mm_layer** layer) {
  if (c->source == C_WEIGHTS_CALLBACK) {
    return mm_layer_create_with(c->config, group, copy_expert, (void*)c, layer);
  }
  return mm_layer_create(c->config, group, c->routed, c->config->num_experts, c->shared, c->config->num_shared_experts,
                         layer);
}

/* The plan of a layer is the plan that was announced without one, and its buffers lie inside the workspace in order. */
static mm_status check_plan(const c_layer_case* c, const mm_layer* layer) {
  mm_plan_info before = MM_PLAN_INFO_INIT;
  mm_plan_info after = MM_PLAN_INFO_INIT;
  uint32_t buffer_idx;
  uint64_t end = 0;
  mm_status status = mm_plan(c->config, c->num_ranks, &before);
  if (status == MM_OK) status = mm_layer_plan(layer, &after);
  if (status != MM_OK) return status;
  if (before.workspace_bytes != after.workspace_bytes || before.num_pool_rows != after.num_pool_rows)
    return MM_INTERNAL;
  if (after.num_buffers == 0 || after.num_ranks != c->num_ranks) return MM_INTERNAL;
  for (buffer_idx = 0; buffer_idx < after.num_buffers; ++buffer_idx) {
    mm_plan_buffer buffer = MM_PLAN_BUFFER_INIT;
    status = mm_layer_plan_buffer(layer, buffer_idx, &buffer);
    if (status != MM_OK) return status;
    if (buffer.name == NULL || buffer.name[0] == '\0' || buffer.offset < end) return MM_INTERNAL;
    end = buffer.offset + buffer.bytes;
  }
  return end <= after.workspace_bytes ? MM_OK : MM_INTERNAL;
}

mm_status c_run_layer(const c_layer_case* c) {
  mm_group* group = NULL;
  mm_layer* layer = NULL;
  mm_status status = mm_group_create_threads(c->num_ranks, &group);
  if (status == MM_OK) status = create_layer(c, group, &layer);
  mm_group_destroy(group); /* the layer keeps what it needs */
  if (status == MM_OK) status = check_plan(c, layer);
  if (status == MM_OK) status = mm_layer_run(layer, c->inputs, c->outputs, c->num_ranks);
  mm_layer_destroy(layer);
  return status;
}
