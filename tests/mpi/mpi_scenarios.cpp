// One process per rank: mpirun -n N mpi_scenarios SCENARIO. Exits with 0 when this rank saw what it had to see.

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check/synthetic.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {
namespace {

constexpr LayerShape kShape{208, 144, 10, 3, 1};
constexpr uint32_t kNumTokens = 77;

/// What every scenario starts from, the same on all ranks.
struct Setting {
  LayerConfig config;
  SyntheticWeightSpec weights;
  SyntheticInputSpec input;

  Setting() {
    config.shape = weights.shape = input.shape = kShape;
    config.max_tokens_per_rank = kNumTokens;
    config.tuning.threads_per_rank = 2;
  }
};

bool expect(bool condition, std::string_view what, uint32_t rank, const Status& status = {}) {
  if (!condition) fmt::print(stderr, "rank {}: expected {} (status: {})\n", rank, what, status.to_string());
  return condition;
}

bool contains(const Status& status, std::string_view part) { return status.message().find(part) != std::string::npos; }

/// Tokens [first, first + count) of rank `rank` of `num_ranks`; rank 1 has none.
std::pair<uint32_t, uint32_t> tokens_of(uint32_t rank, uint32_t num_ranks) {
  const auto begin = [&](uint32_t r) { return r <= 1 ? r * 10 : 10 + (kNumTokens - 10) * (r - 2) / (num_ranks - 2); };
  if (rank == 1) return {10, 0};
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

struct RankRun {
  std::vector<Bf16> y;
  Status status;
};

RankRun run_rank(Layer& layer, const SyntheticBatch& batch, uint32_t rank, uint32_t num_ranks) {
  const auto [first, count] = tokens_of(rank, num_ranks);
  RankRun run{std::vector<Bf16>(size_t{count} * kShape.hidden), {}};
  const RankInput input = batch.slice(first, count);
  const RankOutput output{run.y, {}};
  run.status = layer.run({&input, 1}, {&output, 1});
  return run;
}

/// The whole batch on one rank of this process.
std::vector<Bf16> expected_rows(const Setting& setting, const SyntheticBatch& batch) {
  auto group = Group::threads(1);
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), *group);
  std::vector<Bf16> y(size_t{kNumTokens} * kShape.hidden);
  const RankInput input = batch.all();
  const RankOutput output{y, {}};
  if (!layer || !layer->run({&input, 1}, {&output, 1}).ok()) return {};
  return y;
}

bool has_expected_rows(const Setting& setting, const SyntheticBatch& batch, Layer& layer, uint32_t rank,
                       uint32_t num_ranks) {
  const RankRun run = run_rank(layer, batch, rank, num_ranks);
  if (!expect(run.status.ok(), "ok", rank, run.status)) return false;
  const std::vector<Bf16> all = expected_rows(setting, batch);
  const size_t first = size_t{tokens_of(rank, num_ranks).first} * kShape.hidden;
  return expect(all.size() >= first + run.y.size() && std::equal(run.y.begin(), run.y.end(), all.begin() + first),
                "the bits of one rank", rank);
}

bool same_bits(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  Setting setting;
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  if (!expect(layer.ok(), "a layer", rank, layer.status())) return false;
  bool ok = true;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    setting.input.seed = seed;
    ok = has_expected_rows(setting, SyntheticBatch(setting.input, kNumTokens), *layer, rank, group.num_ranks()) && ok;
  }
  return ok;
}

/// A bad id on one rank is every rank's error, and the next call works.
bool bad_ids(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  const Setting setting;
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  if (!expect(layer.ok(), "a layer", rank, layer.status())) return false;
  SyntheticInputSpec spoiled = setting.input;
  if (rank == 2) spoiled.routing.ids = {3, 10, 4};
  const RankRun bad = run_rank(*layer, SyntheticBatch(spoiled, kNumTokens), rank, group.num_ranks());
  const bool refused = bad.status.code() == StatusCode::invalid_argument &&
                       contains(bad.status, "rank 2: topk_ids[0, 1]") && contains(bad.status, "(got 10)");
  bool untouched = true;
  for (const Bf16 value : bad.y) untouched = untouched && value.bits == 0;
  return expect(refused, "rank 2's bad id as an error", rank, bad.status) && expect(untouched, "y untouched", rank) &&
         has_expected_rows(setting, SyntheticBatch(setting.input, kNumTokens), *layer, rank, group.num_ranks());
}

/// Case 24: ranks that disagree on the maximum.
bool disagreement(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  Setting setting;
  if (rank == 1) setting.config.max_tokens_per_rank = 500;
  const auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  const Status& status = layer.status();
  const bool refused = status.code() == StatusCode::invalid_argument &&
                       contains(status, "max_tokens_per_rank must be the same on every rank") &&
                       contains(status, "77 on rank 0, 500 on rank 1");
  return expect(refused, "the field and both values", rank, status);
}

/// A workspace that no host has room for is an error on every rank, and the group stays usable.
bool no_memory(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  Setting vast;
  vast.config.shape = vast.weights.shape = {4096, 16, 10, 3, 1};
  vast.config.max_tokens_per_rank = 1U << 24;  // terabytes
  const auto refused = Layer::create(vast.config, SyntheticWeights(vast.weights), group);
  const Status& status = refused.status();
  const Setting setting;
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  return expect(status.code() == StatusCode::out_of_memory, "out_of_memory", rank, status) &&
         expect(layer.ok(), "a layer that fits", rank, layer.status()) &&
         has_expected_rows(setting, SyntheticBatch(setting.input, kNumTokens), *layer, rank, group.num_ranks());
}

/// Case 17: one rank starts its first call many time-outs late.
bool late_start(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  Setting setting;
  setting.config.timeout = std::chrono::milliseconds(400);
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  if (!expect(layer.ok(), "a layer", rank, layer.status())) return false;
  if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  const RankRun run = run_rank(*layer, SyntheticBatch(setting.input, kNumTokens), rank, group.num_ranks());
  return expect(run.status.ok(), "ok after a late start", rank, run.status);
}

/// Case 19: rank 2 is killed in a loop of calls; the others return an error within the time-out and some seconds.
[[noreturn]] void dead_peer(const Group& group) {
  const uint32_t rank = group.first_local_rank();
  Setting setting;
  setting.config.timeout = std::chrono::seconds(2);
  auto layer = Layer::create(setting.config, SyntheticWeights(setting.weights), group);
  if (!expect(layer.ok(), "a layer", rank, layer.status())) _exit(1);
  const SyntheticBatch batch(setting.input, kNumTokens);
  // The survivors' verdicts meet in the launcher's output: a pipe that all of them inherit.
  for (int call = 0;; ++call) {
    if (rank == 2 && call == 20) std::raise(SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    const RankRun run = run_rank(*layer, batch, rank, group.num_ranks());
    if (run.status.ok()) continue;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const bool right = expect(run.status.code() == StatusCode::timeout && contains(run.status, "rank 2"),
                              "a time-out that names rank 2", rank, run.status) &&
                       expect(seconds < 7, "an answer within the time-out plus 5 s", rank) &&
                       expect(call == 20, "the error in call 20", rank);
    fmt::print("rank {} after {:.1f} s: {}\n", rank, seconds, run.status.to_string());
    if (right) fmt::print("survivor {} got the error\n", rank);
    std::fflush(stdout);
    // MPI itself cannot be left in order: a member of its world is gone.
    _exit(right ? 0 : 1);
  }
}

int run_scenario(std::string_view name) {
  auto group = Group::mpi();
  if (!group) {
    fmt::print(stderr, "{}\n", group.status().to_string());
    return 1;
  }
  if (name == "same_bits") return same_bits(*group) ? 0 : 1;
  if (name == "bad_ids") return bad_ids(*group) ? 0 : 1;
  if (name == "disagreement") return disagreement(*group) ? 0 : 1;
  if (name == "no_memory") return no_memory(*group) ? 0 : 1;
  if (name == "late_start") return late_start(*group) ? 0 : 1;
  if (name == "dead_peer") dead_peer(*group);
  fmt::print(stderr,
             "scenario must be one of same_bits, bad_ids, disagreement, no_memory, late_start, dead_peer (got {})\n",
             name);
  return 2;
}

}  // namespace
}  // namespace megamoe

int main(int argc, char** argv) { return megamoe::run_scenario(argc == 2 ? argv[1] : ""); }
