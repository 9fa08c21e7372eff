#pragma once

// One layer of a checkpoint run on the tokens of a file: what `megamoe run` and `megamoe demo` share.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "group_kind.hpp"
#include "megamoe/checkpoint.hpp"
#include "megamoe/megamoe.hpp"
#include "reference/compare_stored.hpp"
#include "reference/judge.hpp"

namespace megamoe::cli {

enum class SharedExperts : uint8_t { off, on };
enum class Checking : uint8_t { off, on };

struct RunRequest {
  std::string model;
  std::string tokens;
  uint32_t layer_idx = 0;
  std::optional<uint32_t> num_ranks;  ///< default: 1, or as many as there are MPI processes
  GroupKind group = GroupKind::threads;
  Backend backend = Backend::automatic;
  std::optional<WeightFormat> format;  ///< refuse a model whose routed experts are stored otherwise
  Tuning tuning;
  std::vector<uint32_t> split;  ///< tokens of each rank; empty = even, the first ranks take the remainder
  SharedExperts shared = SharedExperts::off;
  Checking checking = Checking::off;
  std::string out;  ///< empty = do not write
  uint32_t num_calls = 3;
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds start_timeout{600'000};
};

/// Comparison with outputs that the token file holds.
struct StoredCheck {
  std::string name;  ///< the tensor's
  StoredComparison comparison;
};

/// Where the time of the last call went: means over all workers of the group.
struct StageTimes {
  std::array<double, kNumStages> busy_seconds{};
  double wait_seconds = 0;
};

/// What one run did. Under MPI only the first process holds the gathered parts.
struct RunReport {
  bool is_first_process = true;
  MoeLayerInfo info;
  PlanInfo plan;
  std::string routing;  ///< "tensor layers.1.topk_idx" or "the layer's router"
  std::vector<uint32_t> tokens_per_rank;
  std::vector<uint32_t> experts_per_rank;
  std::vector<uint32_t> rows_per_rank;    ///< routed rows received
  std::vector<uint32_t> rows_per_expert;  ///< [E]
  std::vector<double> call_seconds;       ///< wall time of each call
  StageTimes stages;
  std::vector<Bf16> y;  ///< [T, H]
  std::optional<Verdict> reference;
  std::optional<StoredCheck> stored;
  std::string out;

  uint32_t num_tokens() const;
  double median_seconds() const;
  /// True unless a comparison was made and failed.
  bool ok() const;
};

/// Opens, routes, runs, checks and writes as `request` says. Collective under MPI.
Result<RunReport> run_layer(const RunRequest& request);

}  // namespace megamoe::cli
