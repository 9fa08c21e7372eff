// The list of bit cases and the record of their hashes.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "../formats/temp_folder.hpp"
#include "check/bits/bit_inputs.hpp"
#include "check/bits/bit_record.hpp"
#include "check/bits/bit_runs.hpp"
#include "check/fnv1a.hpp"
#include "host/sm90_backend.hpp"

namespace megamoe::bits {
namespace {

constexpr const char* kRecord = MM_SOURCE_DIR "/data/h200-bits/hashes.json";

TEST(BitHash, IsFnv1aOfTheBytes) {
  EXPECT_EQ(check::fnv1a(""), 0xCBF29CE484222325U);
  EXPECT_EQ(check::fnv1a("a"), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(check::fnv1a("foobar"), 0x85944171F73967E8U);
  const Bf16 y[] = {{0x6F66}, {0x626F}, {0x7261}};  // "foobar", low byte first
  EXPECT_EQ(hash_of(y), check::fnv1a("foobar"));
  EXPECT_EQ(hash_text(0x1F), "0x000000000000001f");
}

TEST(BitHash, TellsASingleBit) {
  std::vector<Bf16> y(1000, Bf16{0x3F80});
  const uint64_t before = hash_of(y);
  y[777].bits ^= 1U;
  EXPECT_NE(hash_of(y), before);
}

TEST(BitCases, AreManyAndForceEveryStrategyOnEveryLayer) {
  const std::vector<BitCase> cases = bit_cases();
  std::set<std::string> names;
  std::map<std::string, std::set<Strategy>> strategies;
  bool has_model = false;
  for (const BitCase& one : cases) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    strategies[one.layer].insert(one.config.tuning.strategy);
    has_model |= one.model.has_value();
  }
  EXPECT_GE(cases.size(), 44U);
  EXPECT_TRUE(has_model);
  for (const auto& [layer, forced] : strategies) {
    EXPECT_EQ(forced.size(), 3U) << layer;
    EXPECT_EQ(forced.count(Strategy::automatic), 0U) << layer;
  }
}

/// What no GPU is needed for: each case is a layer that the public API takes, and its plan on one GPU exists.
TEST(BitCases, AreLayersThatAnyoneCouldMake) {
  for (const BitCase& one : bit_cases()) {
    SCOPED_TRACE(one.name);
    const auto num_ranks = static_cast<uint32_t>(one.tokens_per_rank.size());
    EXPECT_TRUE(internal::make_sm90_plan(one.config, num_ranks, {.num_gpus = 1, .num_sms = 132}).ok());
    const auto inputs = BitInputs::make(one, MM_SOURCE_DIR "/data/tiny-moe");
    ASSERT_TRUE(inputs.ok()) << inputs.status().to_string();
    LayerConfig config = one.config;
    config.tuning = {.threads_per_rank = 1};
    auto layer = Layer::create(config, inputs->weights(), *Group::threads(num_ranks));
    ASSERT_TRUE(layer.ok()) << layer.status().to_string();
    std::vector<std::vector<Bf16>> y;
    std::vector<RankOutput> outputs;
    for (const uint32_t num_tokens : one.tokens_per_rank) {
      outputs.push_back({.y = y.emplace_back(size_t{num_tokens} * config.shape.hidden), .local_expert_rows = {}});
    }
    const Status status = layer->run(inputs->ranks(), outputs);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

/// Every case of a record must be looked at: one that the list lacks is a failed run, not a silent one.
TEST(BitRuns, NameWhatTheRecordHasAndTheListLacks) {
  BitRecord record;
  const auto last_run = [&record] { return comparing_runs({}, record).back().run(); };
  EXPECT_EQ(last_run().outcome, CaseOutcome::passed);
  record.hashes["zipf/pingpong"] = 1;
  EXPECT_EQ(last_run().outcome, CaseOutcome::passed);
  record.hashes["zipf/sideways"] = 1;
  const CaseResult result = last_run();
  EXPECT_EQ(result.outcome, CaseOutcome::failed);
  EXPECT_NE(result.message.find("zipf/sideways"), std::string::npos) << result.message;
}

BitRecord small_record() {
  return {.machine = "NVIDIA H200",
          .driver = "580.159, CUDA 13.0",
          .version = "0.1.0",
          .date = "2026-11-30",
          .command = "megamoe check",
          .hashes = {{"a/pingpong", 0}, {"b/small_batch", ~uint64_t{0}}}};
}

TEST(BitRecord, ComesBackAsItWasWritten) {
  const TempFolder folder;
  const std::string path = folder / "hashes.json";
  const BitRecord written = small_record();
  ASSERT_TRUE(write_bit_record(path, written).ok());
  const auto read = read_bit_record(path);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->machine, written.machine);
  EXPECT_EQ(read->driver, written.driver);
  EXPECT_EQ(read->version, written.version);
  EXPECT_EQ(read->date, written.date);
  EXPECT_EQ(read->command, written.command);
  EXPECT_EQ(read->hashes, written.hashes);
}

TEST(BitRecord, IsRefusedIfItIsNotOne) {
  const TempFolder folder;
  const std::string path = folder / "hashes.json";
  EXPECT_EQ(read_bit_record(path).status().code(), StatusCode::not_found);
  ASSERT_TRUE(write_bit_record(path, small_record()).ok());
  std::ifstream stream(path);
  const std::string good{std::istreambuf_iterator<char>(stream), {}};
  const auto spoiled = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path) << text;
    return read_bit_record(path).status();
  };
  for (const auto& [from, to] : std::map<std::string, std::string>{{"0xffffffffffffffff", "0xfffffffffffffff"},
                                                                   {"0x0000000000000000", "0x00000000000000-1"},
                                                                   {"FNV-1a", "SHA-1"},
                                                                   {"\"machine\": \"NVIDIA H200\"", "\"machine\": 1"},
                                                                   {"\"cases\"", "\"hashes\""},
                                                                   {"\"date\"", "\"day\""}}) {
    const Status status = spoiled(from, to);
    EXPECT_EQ(status.code(), StatusCode::invalid_file) << to;
    EXPECT_NE(status.message().find("record it again"), std::string::npos) << status.message();
  }
}

/// What was recorded must agree with itself: strategies change no bit, layers change some.
TEST(BitRecord, OfTheH200HasOneHashALayer) {
  if (!std::filesystem::exists(kRecord)) {
    GTEST_SKIP()
        << "no record yet: run `megamoe check --backend chain --record-bits data/h200-bits/hashes.json` on an H200";
  }
  const auto record = read_bit_record(kRecord);
  ASSERT_TRUE(record.ok()) << record.status().to_string();
  std::map<std::string, uint64_t> layers;
  for (const BitCase& one : bit_cases()) {
    const auto found = record->hashes.find(one.name);
    ASSERT_TRUE(found != record->hashes.end()) << one.name;
    EXPECT_EQ(layers.emplace(one.layer, found->second).first->second, found->second) << one.name;
  }
  EXPECT_EQ(record->hashes.size(), bit_cases().size());
  std::set<uint64_t> hashes;
  for (const auto& [layer, hash] : layers) EXPECT_TRUE(hashes.insert(hash).second) << layer;
}

}  // namespace
}  // namespace megamoe::bits
