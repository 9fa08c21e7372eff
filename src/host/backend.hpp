#pragma once

// What a layer asks of the backend that runs it. Rules that a caller can break, agreement among ranks and the end of a
// group after a fault are the layer's (layer.cpp), the same for all backends.

#include <memory>
#include <span>
#include <string>

#include "host/group.hpp"
#include "host/plan.hpp"
#include "host/validate.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::internal {

/// One local rank's part of one call.
struct LocalCall {
  const RankInput* input = nullptr;
  const RankOutput* output = nullptr;
  Status verdict;  ///< on this rank's arguments; not ok = take part without tokens, so that all ranks learn of it
};

/// One layer on one backend: packed weights, workspaces, and whatever runs a call.
class LayerBackend {
 public:
  virtual ~LayerBackend() = default;

  /// The router ids of one local rank's input where the host can read them: the caller's, or a copy that stands until
  /// the next call. REQUIRES they are as many as the plan allows. Errors: internal.
  virtual Result<RouterIds> readable_ids(uint32_t, const RankInput& input) { return input.topk_ids; }

  /// One call of all local ranks, [num_local_ranks]. Collective; allocates nothing. ENSURES `stats` holds every rank's
  /// times and rows but for wall_seconds, unless an error returns. Errors: timeout and internal, after which the
  /// workspace's flags are in no known state; the first rank's verdict that is not ok, on every rank.
  virtual Status run(std::span<const LocalCall> calls, std::span<RankStats> stats) = 0;

  /// Bytes asked of the allocator for the local ranks.
  virtual uint64_t workspace_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;
  virtual uint64_t packed_weight_bytes() const = 0;
  /// Layer::dump_workspace. REQUIRES a local rank.
  virtual std::string dump_workspace(uint32_t local_rank_idx) const = 0;
};

/// What a backend is made from. All of it but the weights outlives the backend.
struct LayerParts {
  Plan& plan;  ///< pin may still become none
  const LayerConfig& config;
  const WeightSource& weights;
  GroupState& group;
};

/// Packs the weights and allocates. Collective. Errors: whatever the weights return; a broken rule of an expert, by
/// name; out_of_memory.
Result<std::unique_ptr<LayerBackend>> make_cpu_backend(const LayerParts& parts);

}  // namespace megamoe::internal
