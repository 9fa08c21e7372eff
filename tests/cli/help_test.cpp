// Every subcommand's help says what it does, in which units, and shows an example.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli_process.hpp"

namespace megamoe {
namespace {

using testing::call_cli;

struct HelpCase {
  std::string command;
  std::vector<std::string> words;  ///< what the help must teach
};

void PrintTo(const HelpCase& help, std::ostream* stream) { *stream << help.command; }

class Help : public ::testing::TestWithParam<HelpCase> {};

TEST_P(Help, TeachesWithAnExample) {
  const auto outcome = call_cli(GetParam().command + " --help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("--json"), std::string::npos);
  EXPECT_NE(outcome.out.find("\n  megamoe " + GetParam().command), std::string::npos) << "no example\n" << outcome.out;
  for (const std::string& word : GetParam().words) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " is not in\n" << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Commands, Help,
    ::testing::Values(
        HelpCase{"info", {"CPU quota"}}, HelpCase{"inspect", {"FILE", "missing", "gpt-oss"}},
        HelpCase{"plan", {"--shape", "v4-pro", "gpt-oss-20b", "--max-tokens", "--ranks", "bytes per rank"}},
        HelpCase{"run",
                 {"--model", "--layer", "--tokens", "--ranks", "--backend", "--format", "--check", "--out", "--group",
                  "--timeout-ms", "--split", "--shared", "topk_idx", "milliseconds", "BF16"}},
        HelpCase{"check", {"--backend", "--suite", "--filter", "--list", "N passed, N failed"}},
        HelpCase{"bench",
                 {"--shape", "--tokens", "--ranks", "--format", "--routing", "zipf:S", "--one-rank-of", "--repeat",
                  "--warmup", "--min-time", "--threads", "--isa", "median", "seconds", "--out", "--cublaslt",
                  "LD_LIBRARY_PATH"}},
        HelpCase{"demo", {"--data", "four", "stored"}}),
    [](const auto& test) { return test.param.command; });

TEST(Help, TopLevelListsEverySubcommand) {
  const auto outcome = call_cli("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* command : {"info", "inspect", "plan", "run", "check", "bench", "demo"}) {
    EXPECT_NE(outcome.out.find(std::string("\n  ") + command), std::string::npos) << command;
  }
}

TEST(Help, VersionIsTheLibrarys) {
  const auto outcome = call_cli("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.rfind("megamoe ", 0), 0U) << outcome.out;
}

}  // namespace
}  // namespace megamoe
