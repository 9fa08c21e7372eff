/* MegaMoE from C: two ranks in this process, BF16 weights made here, one forward pass, one row printed.
 *   cc -std=c99 minimal.c $(pkg-config --cflags --libs megamoe) */

#include <inttypes.h>
#include <megamoe/megamoe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kNumRanks = 2, kNumTokens = 4, kHidden = 128, kIntermediate = 128, kNumExperts = 4, kTopK = 2 };

static float to_float(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

/* A small deterministic sequence in [-0.5, 0.5). */
static float next_value(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 16777216.0F - 0.5F;
}

/* num_rows x num_cols BF16 values; NULL when there is no memory. The caller frees. */
static uint16_t* make_values(size_t count, uint32_t* state) {
  uint16_t* values = malloc(count * sizeof(*values));
  size_t idx;
  for (idx = 0; values != NULL && idx < count; ++idx) values[idx] = to_bf16(next_value(state));
  return values;
}

/* The library asks for one expert at a time; `user` holds the buffers that the views point into. */
struct expert_buffers {
  uint16_t* gate_up; /* [2I, H] */
  uint16_t* down;    /* [H, I] */
};

static mm_status make_expert(void* user, mm_expert_kind kind, uint32_t expert_idx, mm_expert_weights* weights) {
  struct expert_buffers* buffers = user;
  uint32_t state = 1000u + expert_idx;
  if (kind != MM_EXPERT_ROUTED) return MM_NOT_FOUND;
  free(buffers->gate_up);
  free(buffers->down);
  buffers->gate_up = make_values((size_t)2 * kIntermediate * kHidden, &state);
  buffers->down = make_values((size_t)kHidden * kIntermediate, &state);
  if (buffers->gate_up == NULL || buffers->down == NULL) return MM_OUT_OF_MEMORY;

  weights->layout = MM_GATE_UP_CONCATENATED;
  weights->gate_up.format = MM_WEIGHT_BF16;
  weights->gate_up.num_rows = 2 * kIntermediate;
  weights->gate_up.num_cols = kHidden;
  weights->gate_up.values = buffers->gate_up;
  weights->gate_up.values_bytes = (uint64_t)2 * kIntermediate * kHidden * sizeof(uint16_t);
  weights->down.format = MM_WEIGHT_BF16;
  weights->down.num_rows = kHidden;
  weights->down.num_cols = kIntermediate;
  weights->down.values = buffers->down;
  weights->down.values_bytes = (uint64_t)kHidden * kIntermediate * sizeof(uint16_t);
  return MM_OK;
}

static mm_status run(mm_layer* layer) {
  static uint16_t x[kNumRanks][kNumTokens][kHidden];
  static uint16_t y[kNumRanks][kNumTokens][kHidden];
  static int32_t topk_ids[kNumRanks][kNumTokens][kTopK];
  static float topk_weights[kNumRanks][kNumTokens][kTopK];
  mm_rank_input inputs[kNumRanks];
  mm_rank_output outputs[kNumRanks];
  mm_status status;
  uint32_t state = 7;
  int rank, token, i;

  for (rank = 0; rank < kNumRanks; ++rank) {
    const mm_rank_input blank_input = MM_RANK_INPUT_INIT;
    const mm_rank_output blank_output = MM_RANK_OUTPUT_INIT;
    for (token = 0; token < kNumTokens; ++token) {
      for (i = 0; i < kHidden; ++i) x[rank][token][i] = to_bf16(next_value(&state));
      for (i = 0; i < kTopK; ++i) {
        topk_ids[rank][token][i] = (rank + token + i) % kNumExperts;
        topk_weights[rank][token][i] = 1.0F / kTopK;
      }
    }
    inputs[rank] = blank_input;
    inputs[rank].num_tokens = kNumTokens;
    inputs[rank].x_format = MM_X_BF16;
    inputs[rank].x = x[rank];
    inputs[rank].id_type = MM_ID_I32;
    inputs[rank].topk_ids = topk_ids[rank];
    inputs[rank].topk_weights = &topk_weights[rank][0][0];
    outputs[rank] = blank_output;
    outputs[rank].y = &y[rank][0][0];
  }
  status = mm_layer_run(layer, inputs, outputs, kNumRanks);
  if (status != MM_OK) return status;

  printf("rank 0, token 0:");
  for (i = 0; i < 8; ++i) printf(" %.4f", (double)to_float(y[0][0][i]));
  printf(" ...\n");
  return MM_OK;
}

int main(void) {
  mm_layer_config config = MM_LAYER_CONFIG_INIT;
  mm_plan_info plan = MM_PLAN_INFO_INIT;
  struct expert_buffers buffers = {NULL, NULL};
  mm_group* group = NULL;
  mm_layer* layer = NULL;
  mm_status status;

  config.hidden = kHidden;
  config.intermediate = kIntermediate;
  config.num_experts = kNumExperts;
  config.top_k = kTopK;
  config.max_tokens_per_rank = kNumTokens;

  status = mm_group_create_threads(kNumRanks, &group);
  if (status == MM_OK) status = mm_layer_create_with(&config, group, make_expert, &buffers, &layer);
  if (status == MM_OK) status = mm_layer_plan(layer, &plan);
  if (status == MM_OK) {
    printf("megamoe %s: %" PRIu64 " bytes of workspace per rank\n", mm_version(), plan.workspace_bytes);
    status = run(layer);
  }
  if (status != MM_OK) fprintf(stderr, "minimal_c: %s: %s\n", mm_status_name(status), mm_last_error());

  mm_layer_destroy(layer);
  mm_group_destroy(group);
  free(buffers.gate_up);
  free(buffers.down);
  return status == MM_OK ? 0 : 1;
}
