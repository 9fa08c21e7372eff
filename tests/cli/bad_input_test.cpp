// Bad arguments and bad files: exit code 2, nothing on standard output, and a message with rule, value and remedy.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli_process.hpp"

namespace megamoe {
namespace {

using testing::call_cli;
using testing::tiny_model_file;
using testing::tiny_run;

struct BadInput {
  std::string name;
  std::string arguments;
  std::string rule;
  std::string value;
  std::string remedy;
};

void PrintTo(const BadInput& bad, std::ostream* stream) { *stream << "megamoe " << bad.arguments; }

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, AreRefusedWithRuleValueAndRemedy) {
  const BadInput& bad = GetParam();
  const auto outcome = call_cli(bad.arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(bad.rule), std::string::npos) << "rule '" << bad.rule << "' is not in: " << outcome.err;
  EXPECT_NE(outcome.err.find(bad.value), std::string::npos) << "value '" << bad.value << "' is not in: " << outcome.err;
  EXPECT_NE(outcome.err.find(bad.remedy), std::string::npos)
      << "remedy '" << bad.remedy << "' is not in: " << outcome.err;
}

std::vector<BadInput> command_lines() {
  return {
      {"NoCommand", "", "a subcommand must be named", "(got none)", "see `megamoe --help`"},
      {"UnknownCommand", "launch", "a subcommand must be named", "(got launch)", "see `megamoe --help`"},
      {"UnknownOption", "info --verbose", "every argument must be one", "--verbose", "see `megamoe info --help`"},
      {"PlanWithoutShape", "plan --max-tokens 8", "every required argument", "--shape", "see `megamoe plan --help`"},
      {"RunWithoutModel", "run --layer 1 --tokens x", "every required argument", "--model", "see `megamoe run --help`"},
      {"OptionWithoutValue", "bench --shape", "as the help says", "--shape", "see `megamoe bench --help`"},
      {"UnknownShape", "plan --shape v5 --max-tokens 8", "--shape must be one of", "'v5'", "--shape 4096,2048,256,6"},
      {"ShapeOfThree", "plan --shape 64,64,8 --max-tokens 8", "four numbers", "'64,64,8'", "--shape 4096,2048,256,6"},
      {"ShapeWithWord", "plan --shape 64,x,8,2 --max-tokens 8", "H,I,E,k must be whole numbers", "'x'",
       "without spaces"},
      {"ShapeWithZero", "plan --shape 64,64,0,2 --max-tokens 8", "from 1 to", "'0'", "without spaces"},
      {"NegativeTokens", "bench --shape v3 --tokens 1,-1", "--tokens must be whole numbers", "'-1'", "1,16,256"},
      {"EmptyTokens", "bench --shape v3 --tokens 1,,2", "--tokens must be whole numbers", "''", "1,16,256"},
      {"TokensWithUnit", "plan --shape v3 --max-tokens 8k", "--max-tokens must be a whole number", "'8k'",
       "digits only"},
      {"NoRanks", "plan --shape v3 --max-tokens 8 --ranks 0", "--ranks must be a whole number from 1 to 64", "'0'",
       "digits only"},
      {"RanksOverflow", "plan --shape v3 --max-tokens 8 --ranks 18446744073709551617", "--ranks must be a whole number",
       "'18446744073709551617'", "digits only"},
      {"TooManyRanks", "plan --shape v3 --max-tokens 8 --ranks 65", "from 1 to 64", "'65'", "digits only"},
      {"UnknownBackend", "plan --shape v3 --max-tokens 8 --backend gpu", "backend must be one of", "gpu", "choose one"},
      {"UnknownIsa", "plan --shape v3 --max-tokens 8 --isa sse", "isa must be one of", "sse", "choose one"},
      {"UnknownPin", "plan --shape v3 --max-tokens 8 --pin socket", "pin must be one of", "socket", "choose one"},
      {"UnknownStrategy", "plan --shape v3 --max-tokens 8 --strategy wide", "strategy must be one of", "wide",
       "choose one"},
      {"StrategyOnCpu", "plan --shape v3 --max-tokens 8 --strategy pingpong", "strategy must be auto on cpu",
       "pingpong", "use backend sm90 or chain"},
      {"CheckStrategyOnCpu", "check --backend cpu --strategy small_batch", "strategy must be auto on cpu",
       "small_batch", "leave it out"},
      {"BitsOnCpu", "check --backend cpu --bits x.json", "--bits and --record-bits need a backend", "(got cpu)",
       "--backend chain"},
      {"BitsTwice", "check --backend chain --bits x.json --record-bits y.json", "must not be given together", "y.json",
       "record first"},
      {"BitsWithStrategy", "check --backend chain --strategy pingpong --bits x.json", "--strategy must be left out",
       "pingpong", "every strategy in turn"},
      {"BitsWithoutFile", "check --backend chain --bits /nonexistent.json", "/nonexistent.json", "No such file",
       "check the path"},
      {"SoakOfNoCalls", "check --soak 0", "--soak must be a whole number from 1 to 1000000", "'0'", "digits only"},
      {"SoakWithStrategy", "check --backend chain --soak 3 --strategy pingpong",
       "--soak must be given without --strategy", "pingpong", "draws strategies"},
      {"SoakWithBits", "check --backend chain --soak 3 --bits x.json", "--soak must not be given with --bits", "both",
       "one, then the other"},
      {"SoakWithFilter", "check --soak 3 --filter ranks/", "--soak must be given without --filter", "ranks/",
       "have no names"},
      {"SoakWithoutBackend", "check --backend sm100 --soak 3", "backend must be one that this build has", "sm100", ";"},
      {"UnknownSuite", "check --suite half", "suite", "half", "see `megamoe check --help`"},
      {"FilterWithoutMatch", "check --filter no-such-case", "--filter must match", "'no-such-case'", "--list"},
      {"UnknownFormat", "bench --shape v3 --format fp8,fp6", "--format must be fp8, mxfp4 or bf16", "'fp6'", "choose"},
      {"UnknownRouting", "bench --shape v3 --routing round", "--routing must be uniform, zipf:S", "'round'",
       "zipf:1.2"},
      {"ZipfWithoutNumber", "bench --shape v3 --routing zipf:abc", "--routing must be uniform", "'zipf:abc'",
       "zipf:1.2"},
      {"RoutingFileMissing", "bench --shape v3 --routing file:/nonexistent.json", "/nonexistent.json", "got",
       "see `megamoe bench --help`"},
      {"MinTimeNotNumber", "bench --shape v3 --min-time soon", "--min-time must be a number", "'soon'", "0.5"},
      {"MinTimeInfinite", "bench --shape v3 --min-time inf", "--min-time must be a number", "'inf'", "0.5"},
      {"OneRankOfDoesNotDivide", "bench --shape 64,64,8,2 --one-rank-of 3", "must divide the 8 experts", "(got 3)",
       "choose a divisor"},
      {"OneRankOfLeavesTooFew", "bench --shape 64,64,8,4 --one-rank-of 4", "at least top_k = 4 experts",
       "2 experts per rank", "choose fewer ranks"},
      {"OneRankOfWithRanks", "bench --shape 64,64,8,2 --one-rank-of 2 --ranks 2", "--ranks must be 1", "(got 2)",
       "leave --ranks out"},
      {"SecondShapeUnknown", "bench --shape v3,v9", "--shape must be one of", "'v9'", "--shape 4096,2048,256,6"},
      {"SecondShapeCut", "bench --shape v3,64,64,8", "four numbers", "'64,64,8'", "--shape 4096,2048,256,6"},
      {"SecondShapeNotDivided", "bench --shape 64,64,6,2,64,64,8,2 --one-rank-of 3", "must divide the 8 experts",
       "(got 3)", "choose a divisor"},
      {"RecordInNoFolder", "bench --shape 64,64,8,2 --out /nonexistent/record.json", "must be creatable",
       "/nonexistent/record.json", "check the folder"},
      {"RecordOfAStage", "bench --shape v3 --stage dispatch --out record.json", "--out is for whole layers", "--stage",
       "--json"},
      {"CublasLtOnTheCpu", "bench --shape v3 --backend cpu --cublaslt /usr/lib/libcublasLt.so", "for GPUs' ceilings",
       "(got cpu)", "leave it out"},
      {"HiddenNotMultiple", "plan --shape 7100,2048,8,2 --max-tokens 8", "hidden must be a multiple of 16", "7100",
       "pad"},
      {"BlockMNotOffered", "plan --shape v3 --max-tokens 8 --block-m 48", "block_m", "48", ";"},
      {"TopKAboveExperts", "bench --shape 64,64,2,4 --tokens 1", "top_k must be at most the 2 experts", "(got 4)",
       "lower k"},
      {"EmptyDataFolder", "demo --data /nonexistent", "/nonexistent", "got", ";"},
  };
}

std::vector<BadInput> files() {
  const std::string model = tiny_model_file("fp8.safetensors");
  const std::string probe = tiny_model_file("probe.safetensors");
  return {
      {"ModelMissing", "run --model /nonexistent.safetensors --layer 1 --tokens " + probe, "/nonexistent.safetensors",
       "got", ";"},
      {"InspectMissing", "inspect /nonexistent.safetensors", "/nonexistent.safetensors", "got", ";"},
      {"InspectNotSafetensors", "inspect " + tiny_model_file("text.bin"), "text.bin", "got", ";"},
      {"TokensMissing", "run --model " + model + " --layer 1 --tokens /nonexistent.safetensors",
       "/nonexistent.safetensors", "got", ";"},
      {"TokensWithoutX", "run --model " + model + " --layer 1 --tokens " + model, "must hold layers.1.x or x",
       "other tensors", "BF16 [tokens, hidden]"},
      {"LayerMissing", "run --model " + model + " --layer 7 --tokens " + probe, "layer", "7", ";"},
      {"LayerDense", "run --model " + model + " --layer 0 --tokens " + probe, "layer", "0", ";"},
      {"WrongFormat", tiny_run("fp8") + " --format mxfp4", "--format must be the format of the model's", "(got mxfp4)",
       "leave --format out"},
      {"UnknownGroup", tiny_run("fp8") + " --group nccl", "--group must be threads or mpi", "'nccl'", "mpirun"},
      {"UnknownShared", tiny_run("fp8") + " --shared maybe", "--shared must be on or off", "'maybe'", "choose"},
      {"SplitTooShort", tiny_run("fp8") + " --ranks 4 --split 256,256", "one number per rank, 4", "(got 2)",
       "--split 100,0,12,16"},
      {"SplitWrongSum", tiny_run("fp8") + " --ranks 2 --split 256,255", "add up to the 512 tokens", "(got 511)",
       "change its numbers"},
      {"TimeoutZero", tiny_run("fp8") + " --timeout-ms 0", "--timeout-ms must be a whole number from 1", "'0'",
       "digits"},
      {"StartTimeoutNoNumber", tiny_run("fp8") + " --start-timeout-ms soon",
       "--start-timeout-ms must be a whole number from 1", "'soon'", "digits"},
      {"OutIsInput", tiny_run("fp8") + " --out " + probe, "--out must not be a file that the run reads", "probe",
       "another file"},
      {"OutWithoutFolder", tiny_run("fp8") + " --out /nonexistent/y.safetensors", "/nonexistent/y.safetensors",
       "No such file", "check the folder"},
      {"EmptyModel", "run --model '' --layer 1 --tokens x", "--model must be a path", "an empty one", "name a file"},
  };
}

const auto case_name = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(CommandLines, BadInputs, ::testing::ValuesIn(command_lines()), case_name);
INSTANTIATE_TEST_SUITE_P(Files, BadInputs, ::testing::ValuesIn(files()), case_name);

}  // namespace
}  // namespace megamoe
