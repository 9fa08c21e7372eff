#ifndef TESTS_C_API_C_LAYER_H
#define TESTS_C_API_C_LAYER_H

/* A layer created and run by C99 code alone. The C++ test runs the same case through megamoe.hpp and compares bits. */

#include <megamoe/megamoe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the C program hands its weights over. */
typedef enum c_weight_source { C_WEIGHTS_ARRAY, C_WEIGHTS_CALLBACK } c_weight_source;

/* One case. Pointers are the test's; the C program only passes them on. */
typedef struct c_layer_case {
  const mm_layer_config* config;
  uint32_t num_ranks;
  const mm_expert_weights* routed; /* [config->num_experts] */
  const mm_expert_weights* shared; /* [config->num_shared_experts] */
  const mm_rank_input* inputs;     /* [num_ranks] */
  const mm_rank_output* outputs;   /* [num_ranks] */
  c_weight_source source;
} c_layer_case;

/* Group, layer, plan query, one run, all destroyed again. The first status that is not MM_OK. */
mm_status c_run_layer(const c_layer_case* c);

#ifdef __cplusplus
}
#endif

#endif
