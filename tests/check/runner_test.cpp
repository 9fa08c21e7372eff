#include "check/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "check/case_table.hpp"

namespace megamoe {

void PrintTo(const CheckCase& check_case, std::ostream* stream) { *stream << check_case.name; }

namespace {

/// Every quick case is a test of its own, so that a failure names it.
class QuickSuite : public ::testing::TestWithParam<CheckCase> {};

TEST_P(QuickSuite, MeetsTheReferenceOnTheCpu) {
  const CaseResult result = run_case(GetParam(), Backend::cpu);
  if (result.outcome == CaseOutcome::skipped) GTEST_SKIP() << result.message;
  EXPECT_EQ(result.outcome, CaseOutcome::passed) << result.message;
}

/// "case01/repeated-expert/t16-r4" -> "Case01_repeated_expert_t16_r4".
std::string test_name(const ::testing::TestParamInfo<CheckCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) == 0; }, '_');
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, QuickSuite, ::testing::ValuesIn(check_cases(Suite::quick)), test_name);

CheckCase first_quick_case() { return check_cases(Suite::quick).front(); }

TEST(Runner, ReportsACaseThatBreaksARuleAsFailed) {
  CheckCase broken = first_quick_case();
  broken.config.shape.hidden = 17;
  const CaseResult result = run_case(broken, Backend::cpu);
  EXPECT_EQ(result.outcome, CaseOutcome::failed);
  EXPECT_NE(result.message.find("hidden must be a multiple of 16 (got 17)"), std::string::npos) << result.message;
}

TEST(Runner, SkipsABackendThatIsNotThere) {
  EXPECT_EQ(run_case(first_quick_case(), Backend::sm100).outcome, CaseOutcome::skipped);
}

TEST(Runner, SkipsAForcedStrategyWhereNothingHasIt) {
  for (const CheckCase& one : with_every_strategy({first_quick_case()})) {
    EXPECT_EQ(run_case(one, Backend::sm100).outcome, CaseOutcome::skipped) << one.name;
  }
}

TEST(Runner, CountsAndReportsEveryCase) {
  CheckCase broken = first_quick_case();
  broken.config.shape.hidden = 17;
  const std::vector<CheckCase> cases = {first_quick_case(), broken, first_quick_case()};
  std::vector<size_t> done;
  const CheckSummary summary =
      run_all(named_runs(cases, Backend::cpu), [&](const CaseResult&, size_t num_done, size_t num_cases) {
        done.push_back(num_done);
        EXPECT_EQ(num_cases, 3U);
      });
  EXPECT_EQ(summary.passed, 2U);
  EXPECT_EQ(summary.failed, 1U);
  EXPECT_EQ(summary.skipped, 0U);
  EXPECT_EQ(done, (std::vector<size_t>{1, 2, 3}));
  EXPECT_GT(summary.worst_row_error, 0.0);
}

}  // namespace
}  // namespace megamoe
