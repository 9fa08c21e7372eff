// Every fault that the emulator claims to find is planted in a kernel and found; the kernel without it is clean in
// every mode. The table stands in planted_*.cpp.

#include "planted_faults.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "doc_section.hpp"

namespace megamoe::emu::testing {

namespace {

constexpr uint64_t kNumSeeds = 40;

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  for (const auto& topic : {barrier_faults(), warp_faults(), memory_faults(), race_faults(), copy_faults()}) {
    faults.insert(faults.end(), topic.begin(), topic.end());
  }
  return faults;
}

Report run(const Fault& fault, Version version, Options options) {
  options.num_ranks = kNumRanks;
  options.num_sms = 4;
  options.memory_bytes = 1 << 20;
  Result<Machine> machine = Machine::create(options);
  EXPECT_TRUE(machine.ok()) << machine.status().to_string();
  Buffers buffers;
  for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
    buffers.data[rank] = machine->allocate<uint32_t>(rank, kNumWords);
    buffers.blank[rank] = machine->allocate<uint32_t>(rank, kNumWords);
    buffers.flags[rank] = machine->allocate<uint32_t>(rank, 64);
    machine->fill(buffers.data[rank], 0, kNumWords * sizeof(uint32_t));
    machine->fill(buffers.flags[rank], 0, 64 * sizeof(uint32_t));
    const Result<ptx::TensorMap> map = make_tensor_map({.base = buffers.data[rank],
                                                        .element = ptx::TensorElement::u32,
                                                        .num_dims = 2,
                                                        .sizes = {64, 64},
                                                        .strides_bytes = {256},
                                                        .box = {8, 8}});
    EXPECT_TRUE(map.ok()) << map.status().to_string();
    buffers.map[rank] = *map;
  }
  for (uint32_t rank = 0; rank < fault.num_ranks; ++rank) {
    Launch launch = fault.launch;
    launch.rank = rank;
    const Status status = machine->launch(launch, [&, rank] { fault.kernel(buffers, rank, version); });
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  return machine->run();
}

/// The line that a finding names, with the one behind it where a statement is broken.
std::string source_line(const Finding& finding) {
  std::ifstream file(finding.file);
  std::string line;
  std::string next;
  for (uint32_t i = 0; i < finding.line; ++i) std::getline(file, line);
  std::getline(file, next);
  return line + next;
}

class PlantedFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFound) {
  const Fault& fault = GetParam();
  uint64_t num_found = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    const Report report = run(fault, Version::planted, {.seed = seed, .races = fault.races});
    const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                    [&](const Finding& finding) { return finding.kind == fault.kind; });
    if (found == report.findings.end()) {
      EXPECT_EQ(fault.shows, Shows::sometimes) << "seed " << seed << ": " << report.to_string();
      continue;
    }
    ++num_found;
    EXPECT_EQ(found->seed, seed);
    EXPECT_LT(found->rank, fault.num_ranks);
    EXPECT_LT(found->block, fault.launch.num_blocks);
    EXPECT_LT(found->warp * 32 + found->lane, fault.launch.num_threads);
    if (fault.kind != FindingKind::kernel_exception) {
      EXPECT_NE(found->file.find("/planted_"), std::string::npos) << found->to_string();
      const std::string line = source_line(*found);
      EXPECT_NE(line.find(fault.at), std::string::npos) << found->to_string() << "\n" << line;
    }
    EXPECT_FALSE(found->text.empty());
  }
  EXPECT_GT(num_found, 0U);
}

TEST_P(PlantedFault, CorrectedTwinIsClean) {
  const Fault& fault = GetParam();
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    for (const Races races : {Races::ignore, Races::find}) {
      for (const Stores stores : {Stores::immediate, Stores::delayed}) {
        const Report report = run(fault, Version::corrected, {.seed = seed, .races = races, .stores = stores});
        ASSERT_TRUE(report.clean()) << report.to_string();
      }
    }
  }
}

/// A seed is all that it takes to see a finding again.
TEST_P(PlantedFault, IsReproducible) {
  const Fault& fault = GetParam();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Options options{.seed = seed, .races = fault.races};
    const Report first = run(fault, Version::planted, options);
    const Report second = run(fault, Version::planted, options);
    EXPECT_EQ(first.num_steps, second.num_steps);
    EXPECT_EQ(first.num_switches, second.num_switches);
    ASSERT_EQ(first.findings.size(), second.findings.size());
    for (size_t i = 0; i < first.findings.size(); ++i) {
      EXPECT_EQ(first.findings[i].kind, second.findings[i].kind);
      EXPECT_EQ(first.findings[i].line, second.findings[i].line);
      EXPECT_EQ(first.findings[i].lane, second.findings[i].lane);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault, ::testing::ValuesIn(all_faults()), [](const auto& row) {
  return std::string(row.param.name) + (row.param.races == Races::find ? "_with_races" : "");
});

/// Whatever kind the emulator can report, some row of the table makes it report. Launches are refused before they run.
TEST(PlantedFaults, CoverEveryKind) {
  const std::vector<Fault> faults = all_faults();
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(FindingKind::step_limit); ++kind) {
    const auto wanted = static_cast<FindingKind>(kind);
    // These have tests of their own: launch_test.cpp, tests/tensor_core.
    if (wanted == FindingKind::launch || wanted == FindingKind::step_limit || wanted == FindingKind::mma_order)
      continue;
    EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) { return fault.kind == wanted; }))
        << to_string(wanted);
  }
}

TEST(PlantedFaults, StandInTheDocs) {
  std::string table = kFaultTableHead;
  for (const Fault& fault : all_faults()) {
    table += fault_table_row(fault.name, fault.kind, fault.races, fault.shows == Shows::always ? "every" : "some");
  }
  expect_doc_section("faults", table);
}

}  // namespace

}  // namespace megamoe::emu::testing
