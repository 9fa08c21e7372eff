#pragma once

// The one table of what stands in a rank's workspace. Size, offsets, typed access (workspace.hpp), the plan's buffer
// list, docs/memory.md and the debug dump are all folded from it.

#include "flow/pool.hpp"

namespace megamoe::flow {

/// What a worker that ran out of patience was waiting for. Written once per rank and call; readable by the host.
struct FaultRecord {
  uint32_t is_set = 0;
  uint32_t rank = 0;    ///< who waited
  uint32_t worker = 0;  ///< its worker
  uint32_t stage = 0;   ///< megamoe::Stage it was in
  uint32_t field = 0;   ///< Field it watched
  uint32_t index = 0;   ///< element of that field
  uint64_t seen = 0;
  uint64_t wanted = 0;
};

/// A rank's verdict on its own arguments, for the others to read after the exchange barrier.
struct CallVerdict {
  uint32_t code = 0;  ///< megamoe::StatusCode
  char message[508] = {};
};

// X(name, element type, shape, written by, read by, what it is)
// The shape is written in members of Dims, outermost first, as (a) or (a, b) or (a, b, c).
#define MM_WORKSPACE_FIELDS(X)                                                                                       \
  X(fault, FaultRecord, (1), "a worker of this rank", "the host, on every rank",                                     \
    "what the first wait that timed out was for")                                                                    \
  X(abort_flag, uint32_t, (1), "any rank", "waits of this rank",                                                     \
    "set when any rank gave up, so that all stop at once")                                                           \
  X(peer_epoch, uint64_t, (d.num_ranks), "rank [r]", "waits of this rank",                                           \
    "last cross-rank barrier that rank r entered")                                                                   \
  X(worker_arrivals, uint64_t, (1), "workers of this rank", "workers of this rank",                                  \
    "arrivals at barriers of this rank's workers, ever")                                                             \
  X(verdict, CallVerdict, (1), "this rank", "all ranks after exchange", "this rank's verdict on its arguments")      \
  X(next_tile, uint32_t, (1), "workers of this rank", "workers of this rank", "number of the next tile in the walk") \
  X(send_count, uint64_t, (d.num_all_experts()), "workers of this rank", "workers of this rank",                     \
    "count word per global expert: this rank's slots, workers that reported")                                        \
  X(recv_count, uint32_t, (d.num_local_max(), d.num_ranks), "source rank [r]", "this rank after exchange",           \
    "rows of local expert [e] from rank [r]")                                                                        \
  X(recv_total, uint64_t, (d.num_local_max()), "all ranks", "this rank after exchange",                              \
    "count word per local expert: rows, source ranks that reported")                                                 \
  X(arrived, uint32_t, (d.num_pool_blocks()), "pull", "gemm1", "rows of the pool block that have been pulled")       \
  X(done_mask, uint64_t, (d.num_pool_blocks()), "gemm1", "gemm2", "n blocks of the pool block that are activated")   \
  X(source_slot, uint32_t, (d.num_local_max(), d.num_ranks, d.source_list_slots()), "scatter of rank [r]", "pull",   \
    "slots of rank [r] that chose local expert [e]")                                                                 \
  X(x, uint8_t, (d.max_tokens, d.hidden), "stage_in", "pull of any rank", "input rows, e4m3")                        \
  X(x_scale, float, (d.max_tokens, d.hidden_groups()), "stage_in", "pull of any rank", "their scales")               \
  X(topk_weight, float, (d.max_tokens, d.top_k), "stage_in", "pull of any rank, combine", "router weights")          \
  X(pool_x, uint8_t, (d.num_pool_rows(), d.padded_hidden()), "pull", "gemm1", "received rows, e4m3")                 \
  X(pool_x_scale, float, (d.num_pool_rows(), d.hidden_groups()), "pull", "gemm1", "their scales")                    \
  X(pool_weight, float, (d.num_pool_rows()), "pull", "gemm1, gemm2", "their router weights")                         \
  X(source, RowSource, (d.num_pool_rows()), "pull", "gemm2", "rank, token and choice each row came from")            \
  X(act, uint8_t, (d.num_pool_rows(), d.padded_intermediate()), "gemm1", "gemm2", "activated intermediate, e4m3")    \
  X(act_scale, float, (d.num_pool_rows(), d.intermediate_groups()), "gemm1", "gemm2", "its scales")                  \
  X(partial, uint16_t, (d.num_choices(), d.max_tokens, d.hidden), "gemm2 of any rank", "combine",                    \
    "weighted expert results that came home, BF16")

#define MM_FIELD_ENUM(name, type, shape, writer, reader, text) name,
/// One entry per field, in address order.
enum class Field : uint32_t { MM_WORKSPACE_FIELDS(MM_FIELD_ENUM) };
#undef MM_FIELD_ENUM

#define MM_FIELD_ONE(name, type, shape, writer, reader, text) +1
inline constexpr uint32_t kNumFields = 0 MM_WORKSPACE_FIELDS(MM_FIELD_ONE);
#undef MM_FIELD_ONE

/// Element type of a field.
template <Field field>
struct FieldElement;
#define MM_FIELD_TYPE(name, type, shape, writer, reader, text) \
  template <>                                                  \
  struct FieldElement<Field::name> {                           \
    using Type = type;                                         \
  };
MM_WORKSPACE_FIELDS(MM_FIELD_TYPE)
#undef MM_FIELD_TYPE

namespace internal {
// Products of a parenthesised shape: num_elements(a, b) is a * b, row_elements(a, b) is b.
template <class... Rest>
MM_HOST_DEVICE constexpr uint64_t num_elements(uint64_t first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first * num_elements(rest...);
  }
}
template <class... Rest>
MM_HOST_DEVICE constexpr uint64_t row_elements(uint64_t, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return 1;
  } else {
    return num_elements(static_cast<uint64_t>(rest)...);
  }
}
}  // namespace internal

/// Elements of a field, and elements of one step of its outermost index.
struct FieldExtent {
  uint64_t num_elements = 0;
  uint64_t row_elements = 0;
  uint64_t element_bytes = 0;
  MM_HOST_DEVICE constexpr uint64_t num_bytes() const { return num_elements * element_bytes; }
};

MM_HOST_DEVICE constexpr FieldExtent field_extent(Field field, const Dims& d) {
  switch (field) {
#define MM_FIELD_EXTENT(name, type, shape, writer, reader, text) \
  case Field::name: return {internal::num_elements shape, internal::row_elements shape, sizeof(type)};
    MM_WORKSPACE_FIELDS(MM_FIELD_EXTENT)
#undef MM_FIELD_EXTENT
  }
  return {};
}

/// What people read about a field.
struct FieldText {
  const char* name;
  const char* type;
  const char* shape;
  const char* written_by;
  const char* read_by;
  const char* meaning;
};

constexpr FieldText field_text(Field field) {
  switch (field) {
#define MM_FIELD_TEXT(name, type, shape, writer, reader, text) \
  case Field::name: return {#name, #type, #shape, writer, reader, text};
    MM_WORKSPACE_FIELDS(MM_FIELD_TEXT)
#undef MM_FIELD_TEXT
  }
  return {};
}

}  // namespace megamoe::flow
