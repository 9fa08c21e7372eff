// The C ABI: megamoe.h over megamoe.hpp. No exception passes, no pointer is believed.

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "host/c_convert.hpp"

struct mm_group {
  megamoe::Group group;
};

struct mm_layer {
  megamoe::Layer layer;
  megamoe::Group group;
  // One entry per local rank, made once: a run allocates nothing.
  std::vector<megamoe::RankInput> inputs;
  std::vector<megamoe::RankOutput> outputs;
};

namespace {

using megamoe::ExpertWeights;
using megamoe::invalid_argument;
using megamoe::Result;
using megamoe::Status;
using megamoe::StatusCode;
using megamoe::internal::require_pointer;
using megamoe::internal::require_struct;

static_assert(MM_OK == static_cast<int32_t>(StatusCode::ok));
static_assert(MM_INVALID_ARGUMENT == static_cast<int32_t>(StatusCode::invalid_argument));
static_assert(MM_INVALID_FILE == static_cast<int32_t>(StatusCode::invalid_file));
static_assert(MM_NOT_FOUND == static_cast<int32_t>(StatusCode::not_found));
static_assert(MM_UNSUPPORTED == static_cast<int32_t>(StatusCode::unsupported));
static_assert(MM_OUT_OF_MEMORY == static_cast<int32_t>(StatusCode::out_of_memory));
static_assert(MM_TIMEOUT == static_cast<int32_t>(StatusCode::timeout));
static_assert(MM_FAILED_PRECONDITION == static_cast<int32_t>(StatusCode::failed_precondition));
static_assert(MM_INTERNAL == static_cast<int32_t>(StatusCode::internal));

std::string& last_error() {
  thread_local std::string message;
  return message;
}

/// Runs `body`, which returns a Status, and notes its message for mm_last_error().
template <class Body>
mm_status guarded(Body body) noexcept {
  try {
    const Status status = body();
    last_error() = status.message();
    return static_cast<mm_status>(status.code());
  } catch (const std::bad_alloc&) {
    last_error().clear();  // a message might not fit either
    return MM_OUT_OF_MEMORY;
  } catch (...) {
    last_error().clear();
    return MM_INTERNAL;
  }
}

Status require_array(const void* array, uint32_t count, std::string_view name) {
  if (count == 0) return {};
  return require_pointer(array, name);
}

/// The first status that is not ok.
template <class... Rest>
Status first_error(Status status, Rest... rest) {
  if constexpr (sizeof...(rest) > 0) {
    if (status.ok()) return first_error(std::move(rest)...);
  }
  return status;
}

/// Experts that the caller described in two arrays; read one by one, so that experts of other ranks may be left blank.
class CArrayWeights final : public megamoe::WeightSource {
 public:
  CArrayWeights(std::span<const mm_expert_weights> routed, std::span<const mm_expert_weights> shared)
      : routed_(routed), shared_(shared) {}
  Result<ExpertWeights> routed(uint32_t expert_idx) const override { return find(routed_, "routed", expert_idx); }
  Result<ExpertWeights> shared(uint32_t shared_idx) const override { return find(shared_, "shared", shared_idx); }

 private:
  static Result<ExpertWeights> find(std::span<const mm_expert_weights> experts, std::string_view array, uint32_t idx) {
    if (idx >= experts.size()) {
      return invalid_argument(fmt::format("{} must have an entry for expert {}", array, idx), experts.size(),
                              "pass as many entries as the config has such experts");
    }
    const std::string name = fmt::format("{}[{}]", array, idx);
    Status status = require_struct(&experts[idx], name, "mm_expert_weights");
    if (!status.ok()) return status;
    return megamoe::internal::to_expert(experts[idx], name);
  }

  std::span<const mm_expert_weights> routed_;
  std::span<const mm_expert_weights> shared_;
};

/// Experts from the caller's function.
class CCallbackWeights final : public megamoe::WeightSource {
 public:
  CCallbackWeights(mm_weights_fn function, void* user) : function_(function), user_(user) {}
  Result<ExpertWeights> routed(uint32_t expert_idx) const override { return ask(MM_EXPERT_ROUTED, expert_idx); }
  Result<ExpertWeights> shared(uint32_t shared_idx) const override { return ask(MM_EXPERT_SHARED, shared_idx); }

 private:
  Result<ExpertWeights> ask(mm_expert_kind kind, uint32_t idx) const {
    const std::string name = fmt::format("{} expert {}", kind == MM_EXPERT_ROUTED ? "routed" : "shared", idx);
    mm_expert_weights weights{};
    weights.struct_bytes = sizeof(weights);
    const mm_status code = function_(user_, kind, idx, &weights);
    if (code < MM_OK || code > MM_INTERNAL) {
      return invalid_argument("a weights function must return an mm_status, 0..8", code, "return MM_OK or an error");
    }
    if (code != MM_OK) {
      return Status(static_cast<StatusCode>(code), fmt::format("the weights function failed for {} (got {}); see why "
                                                               "it returned that",
                                                               name, mm_status_name(code)));
    }
    Status status = require_struct(&weights, name, "mm_expert_weights");
    if (!status.ok()) return status;
    return megamoe::internal::to_expert(weights, name);
  }

  mm_weights_fn function_;
  void* user_;
};

Status create_group(Result<megamoe::Group> made, mm_group** group) {
  if (!made) return made.status();
  *group = new mm_group{*std::move(made)};
  return {};
}

/// Whether some ranks of the group live in other processes and may already wait in the same collective call.
bool has_remote_ranks(const megamoe::Group& group) { return group.num_local_ranks() < group.num_ranks(); }

Result<megamoe::LayerConfig> checked_config(const mm_layer_config* config) {
  Status status = require_struct(config, "config", "mm_layer_config");
  if (!status.ok()) return status;
  return megamoe::internal::to_config(*config);
}

Status create_layer(const mm_layer_config* config, const mm_group* group, const megamoe::WeightSource& weights,
                    mm_layer** layer) {
  Status status = require_pointer(group, "group");
  if (!status.ok()) return status;
  const Result<megamoe::LayerConfig> converted = checked_config(config);
  if (!converted) {
    // The others hear of it: an empty config is refused on every rank. This rank keeps its own, better message.
    if (has_remote_ranks(group->group)) (void)megamoe::Layer::create({}, weights, group->group);
    return converted.status();
  }
  Result<megamoe::Layer> made = megamoe::Layer::create(*converted, weights, group->group);
  if (!made) return made.status();
  const uint32_t num_local_ranks = group->group.num_local_ranks();
  *layer = new mm_layer{*std::move(made), group->group, std::vector<megamoe::RankInput>(num_local_ranks),
                        std::vector<megamoe::RankOutput>(num_local_ranks)};
  return {};
}

Status convert_io(mm_layer& layer, const mm_rank_input* inputs, const mm_rank_output* outputs,
                  uint32_t num_local_ranks) {
  if (num_local_ranks != layer.inputs.size()) {
    return invalid_argument(
        fmt::format("num_local_ranks must be the group's {} ranks of this process", layer.inputs.size()),
        num_local_ranks, "pass one input and one output for each");
  }
  Status status = first_error(require_pointer(inputs, "inputs"), require_pointer(outputs, "outputs"));
  if (!status.ok()) return status;
  const megamoe::LayerShape& shape = layer.layer.plan().shape;
  for (uint32_t local_idx = 0; local_idx < num_local_ranks; ++local_idx) {
    // Names are put together only for a message: a good call allocates nothing.
    const mm_rank_input& input = inputs[local_idx];
    const mm_rank_output& output = outputs[local_idx];
    if (input.struct_bytes != sizeof(input)) {
      return require_struct(&input, fmt::format("inputs[{}]", local_idx), "mm_rank_input");
    }
    if (output.struct_bytes != sizeof(output)) {
      return require_struct(&output, fmt::format("outputs[{}]", local_idx), "mm_rank_output");
    }
    Result<megamoe::RankInput> converted = megamoe::internal::to_input(input, shape, local_idx);
    if (!converted) return converted.status();
    layer.inputs[local_idx] = *std::move(converted);
    const uint32_t rank = layer.group.first_local_rank() + local_idx;
    layer.outputs[local_idx] =
        megamoe::internal::to_output(output, input.num_tokens, shape, layer.layer.num_local_experts(rank));
  }
  return {};
}

}  // namespace

const char* mm_version(void) {
  static const std::string text{megamoe::version()};
  return text.c_str();
}

const char* mm_status_name(mm_status status) {
  if (status < MM_OK || status > MM_INTERNAL) return "unknown";
  return megamoe::to_string(static_cast<StatusCode>(status)).data();
}

const char* mm_last_error(void) { return last_error().c_str(); }

mm_status mm_group_create_threads(uint32_t num_ranks, mm_group** group) {
  return guarded([&]() -> Status {
    Status status = require_pointer(group, "group");
    return status.ok() ? create_group(megamoe::Group::threads(num_ranks), group) : status;
  });
}

mm_status mm_group_create_mpi(mm_group** group) {
  return guarded([&]() -> Status {
    Status status = require_pointer(group, "group");
    return status.ok() ? create_group(megamoe::Group::mpi(), group) : status;
  });
}

void mm_group_destroy(mm_group* group) { delete group; }

uint32_t mm_group_num_ranks(const mm_group* group) { return group == nullptr ? 0 : group->group.num_ranks(); }

uint32_t mm_group_num_local_ranks(const mm_group* group) {
  return group == nullptr ? 0 : group->group.num_local_ranks();
}

uint32_t mm_group_first_local_rank(const mm_group* group) {
  return group == nullptr ? 0 : group->group.first_local_rank();
}

mm_status mm_plan(const mm_layer_config* config, uint32_t num_ranks, mm_plan_info* info) {
  return guarded([&]() -> Status {
    Status status =
        first_error(require_struct(config, "config", "mm_layer_config"), require_struct(info, "info", "mm_plan_info"));
    if (!status.ok()) return status;
    const Result<megamoe::LayerConfig> converted = megamoe::internal::to_config(*config);
    if (!converted) return converted.status();
    const Result<megamoe::PlanInfo> plan = megamoe::plan(*converted, num_ranks);
    if (!plan) return plan.status();
    megamoe::internal::fill_plan_info(*plan, *info);
    return {};
  });
}

mm_status mm_layer_create(const mm_layer_config* config, const mm_group* group, const mm_expert_weights* routed,
                          uint32_t num_routed, const mm_expert_weights* shared, uint32_t num_shared, mm_layer** layer) {
  return guarded([&]() -> Status {
    Status status = first_error(require_pointer(layer, "layer"), require_array(routed, num_routed, "routed"),
                                require_array(shared, num_shared, "shared"));
    if (!status.ok()) return status;
    const CArrayWeights weights({routed, num_routed}, {shared, num_shared});
    return create_layer(config, group, weights, layer);
  });
}

mm_status mm_layer_create_with(const mm_layer_config* config, const mm_group* group, mm_weights_fn weights, void* user,
                               mm_layer** layer) {
  return guarded([&]() -> Status {
    Status status = require_pointer(layer, "layer");
    if (!status.ok()) return status;
    if (weights == nullptr) return require_pointer(nullptr, "weights");
    return create_layer(config, group, CCallbackWeights(weights, user), layer);
  });
}

void mm_layer_destroy(mm_layer* layer) { delete layer; }

mm_status mm_layer_run(mm_layer* layer, const mm_rank_input* inputs, const mm_rank_output* outputs,
                       uint32_t num_local_ranks) {
  return guarded([&]() -> Status {
    Status status = require_pointer(layer, "layer");
    if (!status.ok()) return status;
    status = convert_io(*layer, inputs, outputs, num_local_ranks);
    if (status.ok()) return layer->layer.run(layer->inputs, layer->outputs);
    // As in create_layer: a call without inputs is refused on every rank.
    if (has_remote_ranks(layer->group)) (void)layer->layer.run({}, {});
    return status;
  });
}

mm_status mm_layer_plan(const mm_layer* layer, mm_plan_info* info) {
  return guarded([&]() -> Status {
    Status status = first_error(require_pointer(layer, "layer"), require_struct(info, "info", "mm_plan_info"));
    if (status.ok()) megamoe::internal::fill_plan_info(layer->layer.plan(), *info);
    return status;
  });
}

mm_status mm_layer_plan_buffer(const mm_layer* layer, uint32_t buffer_idx, mm_plan_buffer* buffer) {
  return guarded([&]() -> Status {
    Status status = first_error(require_pointer(layer, "layer"), require_struct(buffer, "buffer", "mm_plan_buffer"));
    if (!status.ok()) return status;
    const std::vector<megamoe::PlanBuffer>& buffers = layer->layer.plan().buffers;
    if (buffer_idx >= buffers.size()) {
      return invalid_argument(fmt::format("buffer_idx must be below num_buffers = {}", buffers.size()), buffer_idx,
                              "ask mm_layer_plan for num_buffers");
    }
    const megamoe::PlanBuffer& found = buffers[buffer_idx];
    *buffer = {sizeof(*buffer), found.name.c_str(), found.shape.c_str(), found.offset, found.bytes};
    return {};
  });
}

uint32_t mm_layer_first_expert(const mm_layer* layer, uint32_t rank) {
  if (layer == nullptr || rank >= layer->group.num_ranks()) return 0;
  return layer->layer.first_expert(rank);
}

uint32_t mm_layer_num_local_experts(const mm_layer* layer, uint32_t rank) {
  if (layer == nullptr || rank >= layer->group.num_ranks()) return 0;
  return layer->layer.num_local_experts(rank);
}
