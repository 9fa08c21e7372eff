#ifndef MEGAMOE_MEGAMOE_H
#define MEGAMOE_MEGAMOE_H

/* MegaMoE for C: the same layer as megamoe.hpp behind opaque handles. C99; nothing here throws or prints.
 *
 *   mm_group* group;  mm_group_create_threads(4, &group);
 *   mm_layer_config config = MM_LAYER_CONFIG_INIT;  config.hidden = ...;
 *   mm_layer* layer;  mm_layer_create(&config, group, experts, num_experts, NULL, 0, &layer);
 *   if (mm_layer_run(layer, inputs, outputs, 4) != MM_OK) puts(mm_last_error());
 *
 * Structs that may grow start with struct_bytes: begin from their ..._INIT and the library knows which version of the
 * header the caller was compiled with. examples/minimal.c is a whole program. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

/* Outcome of a call. Enumerations are int32_t in this interface so that a wrong value can be told, not trusted. */
typedef int32_t mm_status;
enum {
  MM_OK = 0,
  MM_INVALID_ARGUMENT = 1,    /* a rule of the interface was broken */
  MM_INVALID_FILE = 2,        /* a file is malformed, truncated or inconsistent */
  MM_NOT_FOUND = 3,           /* a file, tensor or layer does not exist */
  MM_UNSUPPORTED = 4,         /* not available in this build or on this machine */
  MM_OUT_OF_MEMORY = 5,       /* an allocation could not be made */
  MM_TIMEOUT = 6,             /* a bounded wait ran out */
  MM_FAILED_PRECONDITION = 7, /* the object cannot be used in its present state */
  MM_INTERNAL = 8             /* a defect of MegaMoE */
};

/* "0.1.0". */
const char* mm_version(void);
/* "ok", "invalid_argument", ...; "unknown" for a value that is no status. */
const char* mm_status_name(mm_status status);
/* Why this thread's last call failed: rule, value, remedy. "" after a success. Valid until the thread's next call. */
const char* mm_last_error(void);

/* ---------------------------------------------------------------- group */

/* The ranks that share a layer's experts. A layer keeps its group alive. */
typedef struct mm_group mm_group;

/* num_ranks (1..64) ranks in this process, each a group of threads. */
mm_status mm_group_create_threads(uint32_t num_ranks, mm_group** group);
/* One rank per process of MPI_COMM_WORLD, all on one host. MM_UNSUPPORTED when built without MPI. */
mm_status mm_group_create_mpi(mm_group** group);
/* NULL is allowed. */
void mm_group_destroy(mm_group* group);
/* Ranks in all, ranks that live in this process, and the first of those. 0 for NULL. */
uint32_t mm_group_num_ranks(const mm_group* group);
uint32_t mm_group_num_local_ranks(const mm_group* group);
uint32_t mm_group_first_local_rank(const mm_group* group);

/* ---------------------------------------------------------------- configuration */

typedef int32_t mm_backend;
enum { MM_BACKEND_AUTO = 0, MM_BACKEND_CPU = 1, MM_BACKEND_SM90 = 2, MM_BACKEND_SM100 = 3, MM_BACKEND_CHAIN = 4 };

typedef int32_t mm_isa;
enum {
  MM_ISA_AUTO = 0,
  MM_ISA_SCALAR = 1,
  MM_ISA_AVX2 = 2,
  MM_ISA_AVX512 = 3,
  MM_ISA_AVX512_BF16 = 4,
  MM_ISA_AMX_BF16 = 5
};

/* Where worker threads may run; memory follows them. */
typedef int32_t mm_pin;
enum {
  MM_PIN_AUTO = 0, /* node where the threads fill several NUMA nodes, else none */
  MM_PIN_NONE = 1, /* the system moves threads as it likes */
  MM_PIN_NODE = 2, /* each thread stays on one NUMA node; ranks take contiguous shares of the machine */
  MM_PIN_CORE = 3  /* each thread stays on one core; only for CPUs that nobody else uses */
};

/* How the Hopper kernels lay tiles on the tensor cores: the same bits from all of them. */
typedef int32_t mm_strategy;
enum {
  MM_STRATEGY_AUTO = 0,        /* chosen in every call */
  MM_STRATEGY_COOPERATIVE = 1, /* two math groups share every tile */
  MM_STRATEGY_PINGPONG = 2,    /* two math groups on different tiles */
  MM_STRATEGY_SMALL_BATCH = 3  /* weights are the instruction's rows, tokens its columns */
};

/* Where a token's router weight is multiplied in. */
typedef int32_t mm_router_weight_position;
enum { MM_ROUTER_WEIGHT_BEFORE_GEMM2 = 0, MM_ROUTER_WEIGHT_AT_COMBINE = 1 };

/* How the scale of a quantised activation group is chosen: amax / 448, or the next power of two. */
typedef int32_t mm_activation_scale;
enum { MM_ACTIVATION_SCALE_FP32 = 0, MM_ACTIVATION_SCALE_POWER_OF_TWO = 1 };

/* Called while weights are packed, from the thread that creates the layer. */
typedef void (*mm_progress_fn)(void* user, uint64_t num_experts_done, uint64_t num_experts);

/* Everything that fixes a layer but its weights. */
typedef struct mm_layer_config {
  size_t struct_bytes;
  uint32_t hidden;             /* H: columns of a token; a multiple of 16 */
  uint32_t intermediate;       /* I: columns between gemm1 and gemm2; a multiple of 16 */
  uint32_t num_experts;        /* E: routed experts of the group, 1..1024 */
  uint32_t top_k;              /* K: routed choices per token, 1..32 */
  uint32_t num_shared_experts; /* experts that every token visits with weight 1 */
  uint32_t max_tokens_per_rank;
  float limit; /* clamp of gate and up; 0 = none */
  float alpha; /* gate * sigmoid(alpha * gate) * (up + up_offset) */
  float up_offset;
  mm_router_weight_position router_weight;
  mm_activation_scale activation_scale;
  mm_backend backend;
  /* Tuning: 0 = chosen by the plan. None of it changes one bit of the result, except MM_ISA_AVX512_BF16 and
     MM_ISA_AMX_BF16, whose last bits differ from the others'. */
  uint32_t threads_per_rank;
  uint32_t block_m;       /* 16, 32, 64, 128 or 256 pool rows per block */
  uint32_t gemm1_block_n; /* intermediate columns per tile; a multiple of 128 */
  uint32_t gemm2_block_n; /* hidden columns per tile; a multiple of 16 */
  uint32_t experts_per_wave;
  mm_isa isa;
  mm_pin pin;                /* need not be the same on every rank */
  mm_strategy strategy;      /* only for MM_BACKEND_SM90 and MM_BACKEND_CHAIN */
  uint64_t timeout_ms;       /* longest wait for another rank or worker */
  uint64_t start_timeout_ms; /* the same for the first call on a workspace; 0 = ten minutes. The longer one counts */
  mm_progress_fn progress;   /* may be NULL */
  void* progress_user;
} mm_layer_config;

#define MM_LAYER_CONFIG_INIT \
  { .struct_bytes = sizeof(mm_layer_config), .alpha = 1.0F, .timeout_ms = 60000 }

/* ---------------------------------------------------------------- weights */

typedef int32_t mm_weight_format;
enum {
  MM_WEIGHT_FP8_BLOCK = 0, /* e4m3, one scale per block_rows x block_cols */
  MM_WEIGHT_MXFP4 = 1,     /* e2m1, two per byte (low nibble = even column), one E8M0 scale per row and 32 columns */
  MM_WEIGHT_BF16 = 2       /* no scales */
};

typedef int32_t mm_scale_format;
enum { MM_SCALE_F32 = 0, MM_SCALE_E8M0 = 1 };

typedef int32_t mm_gate_up_layout;
enum {
  MM_GATE_UP_SEPARATE = 0,     /* two matrices: gate, up */
  MM_GATE_UP_CONCATENATED = 1, /* gate_up: rows [0, I) are gate, rows [I, 2I) are up */
  MM_GATE_UP_INTERLEAVED = 2   /* gate_up: row 2i is gate i, row 2i + 1 is up i */
};

/* One projection, row-major [num_rows, num_cols]; a row is one output column of the product. */
typedef struct mm_matrix {
  mm_weight_format format;
  mm_scale_format scale_format; /* of scales; ignored for MM_WEIGHT_BF16 */
  uint32_t num_rows;
  uint32_t num_cols;   /* logical columns: an MXFP4 row holds num_cols / 2 bytes */
  uint32_t block_rows; /* fp8: from the file; mxfp4: 1; bf16: 0 */
  uint32_t block_cols; /* fp8: from the file; mxfp4: 32; bf16: 0 */
  const void* values;  /* values_bytes bytes */
  uint64_t values_bytes;
  const void* scales; /* [ceil(num_rows / block_rows), ceil(num_cols / block_cols)]; NULL for bf16 */
  uint64_t num_scales;
} mm_matrix;

/* All weights of one expert. The memory stays the caller's; mm_layer_create packs a copy. */
typedef struct mm_expert_weights {
  size_t struct_bytes;
  mm_gate_up_layout layout;
  mm_matrix gate;            /* [I, H], layout separate */
  mm_matrix up;              /* [I, H], layout separate */
  mm_matrix gate_up;         /* [2I, H], the other layouts */
  mm_matrix down;            /* [H, I] */
  const float* gate_bias;    /* [gate.num_rows] or NULL */
  const float* up_bias;      /* [up.num_rows] or NULL */
  const float* gate_up_bias; /* [gate_up.num_rows], in the order of its rows, or NULL */
  const float* down_bias;    /* [down.num_rows] or NULL */
} mm_expert_weights;

#define MM_EXPERT_WEIGHTS_INIT \
  { .struct_bytes = sizeof(mm_expert_weights) }

typedef int32_t mm_expert_kind;
enum { MM_EXPERT_ROUTED = 0, MM_EXPERT_SHARED = 1 };

/* Fills *weights (already MM_EXPERT_WEIGHTS_INIT) for one expert; what it points to must stay until the next call. Only
 * experts of this process's ranks are asked for. Anything but MM_OK ends mm_layer_create_with with that status. */
typedef mm_status (*mm_weights_fn)(void* user, mm_expert_kind kind, uint32_t expert_idx, mm_expert_weights* weights);

/* ---------------------------------------------------------------- plan */

/* What the library decided, the same on every rank but for pin. */
typedef struct mm_plan_info {
  size_t struct_bytes;
  mm_backend backend;
  mm_isa isa;
  mm_strategy strategy; /* as the config says */
  uint32_t num_ranks;
  uint32_t max_tokens_per_rank;
  uint32_t threads_per_rank;
  mm_pin pin;                     /* never MM_PIN_AUTO; of this process */
  uint32_t num_local_experts_max; /* routed + shared, on the rank that has most */
  uint32_t block_m;
  uint32_t gemm1_block_n;
  uint32_t gemm2_block_n;
  uint32_t experts_per_wave;
  uint64_t num_pool_rows;
  uint64_t num_pool_blocks;
  uint64_t workspace_bytes; /* per rank */
  uint64_t scratch_bytes;   /* per rank */
  uint32_t num_buffers;     /* fields of the workspace: mm_layer_plan_buffer */
} mm_plan_info;

#define MM_PLAN_INFO_INIT \
  { .struct_bytes = sizeof(mm_plan_info) }

/* Validates `config` for `num_ranks` ranks and plans it without allocating a workspace. */
mm_status mm_plan(const mm_layer_config* config, uint32_t num_ranks, mm_plan_info* info);

/* ---------------------------------------------------------------- layer */

/* One MoE layer: plan, packed weights and workspace. One call at a time. */
typedef struct mm_layer mm_layer;

/* Validates, plans, allocates and packs. Collective: with an MPI group every rank must call it with the same config.
 * routed: [num_routed], num_routed = num_experts. shared: [num_shared], num_shared = num_shared_experts; NULL if 0. */
mm_status mm_layer_create(const mm_layer_config* config, const mm_group* group, const mm_expert_weights* routed,
                          uint32_t num_routed, const mm_expert_weights* shared, uint32_t num_shared, mm_layer** layer);
/* The same with one expert at a time from a function. */
mm_status mm_layer_create_with(const mm_layer_config* config, const mm_group* group, mm_weights_fn weights, void* user,
                               mm_layer** layer);
/* NULL is allowed. */
void mm_layer_destroy(mm_layer* layer);

typedef int32_t mm_x_format;
enum {
  MM_X_BF16 = 0,    /* bf16 bits */
  MM_X_FP8_F32 = 1, /* e4m3 with float scales per token and 128 columns */
  MM_X_FP8_E8M0 = 2 /* e4m3 with E8M0 scales per token and 128 columns */
};

typedef int32_t mm_id_type;
enum { MM_ID_I32 = 0, MM_ID_I64 = 1 };

/* What one rank brings to a call. Pointers may be NULL when num_tokens is 0. */
typedef struct mm_rank_input {
  size_t struct_bytes;
  uint32_t num_tokens; /* 0..max_tokens_per_rank */
  mm_x_format x_format;
  const void* x;        /* [num_tokens, H] */
  const void* x_scales; /* [num_tokens, ceil(H / 128)]; NULL for MM_X_BF16 */
  mm_id_type id_type;
  const void* topk_ids;      /* [num_tokens, K]: global expert ids; -1 means "no expert" */
  const float* topk_weights; /* [num_tokens, K], used verbatim */
} mm_rank_input;

#define MM_RANK_INPUT_INIT \
  { .struct_bytes = sizeof(mm_rank_input) }

/* What one rank takes from a call. */
typedef struct mm_rank_output {
  size_t struct_bytes;
  uint16_t* y;                 /* [num_tokens, H] bf16 bits; untouched on an argument error */
  uint32_t* local_expert_rows; /* [mm_layer_num_local_experts(rank)] rows that each received, or NULL */
} mm_rank_output;

#define MM_RANK_OUTPUT_INIT \
  { .struct_bytes = sizeof(mm_rank_output) }

/* One forward pass. inputs, outputs: [num_local_ranks], in rank order. Collective; allocates nothing. Errors are found
 * before anything runs and reach every rank. */
mm_status mm_layer_run(mm_layer* layer, const mm_rank_input* inputs, const mm_rank_output* outputs,
                       uint32_t num_local_ranks);

mm_status mm_layer_plan(const mm_layer* layer, mm_plan_info* info);

/* One field of the workspace. The strings live as long as the layer. */
typedef struct mm_plan_buffer {
  size_t struct_bytes;
  const char* name;
  const char* shape; /* "[num_pool_rows, hidden] fp8" */
  uint64_t offset;   /* bytes into the rank's workspace */
  uint64_t bytes;
} mm_plan_buffer;

#define MM_PLAN_BUFFER_INIT \
  { .struct_bytes = sizeof(mm_plan_buffer) }

/* buffer_idx in 0..num_buffers-1, in address order. */
mm_status mm_layer_plan_buffer(const mm_layer* layer, uint32_t buffer_idx, mm_plan_buffer* buffer);

/* Routed experts that `rank` owns: [first, first + count). 0 for NULL or a rank outside the group. */
uint32_t mm_layer_first_expert(const mm_layer* layer, uint32_t rank);
uint32_t mm_layer_num_local_experts(const mm_layer* layer, uint32_t rank);

#ifdef __cplusplus
}
#endif

#endif /* MEGAMOE_MEGAMOE_H */
