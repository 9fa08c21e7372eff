// megamoe run: one layer of a checkpoint on the tokens of a file.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "group_kind.hpp"
#include "host/errors.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_layer.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
The tokens file is safetensors and holds, as layers.N.NAME or plain NAME:
  x             BF16 [T, H]        token rows as the layer takes them (after the block's norm)
  topk_idx      I64/I32 [T, K]     global expert ids, -1 = no expert     } both, or neither:
  topk_weights  F32 [T, K]         router weights, used verbatim         } then the layer's router decides
  y_fp8, y_mxfp4, y_bf16  F32 [T, H]  stored outputs of the routed experts for weights in that format

--check compares every row with an FP64 reference of the numerics contract and, with --shared off, with the stored outputs
for the model's format. Rule for shared experts: they run only when --shared on says so.

Times are wall time per call; stage times are means over all workers. The output does not change by one bit with
--ranks, --threads, --split or any tile size.

Examples:
  megamoe run --model data/tiny-moe/fp8.safetensors --layer 1 --tokens data/tiny-moe/probe.safetensors --ranks 4 --check
  megamoe run --model DIR --layer 3 --tokens x.safetensors --ranks 3 --split 100,0,12 --out y.safetensors
  mpirun -n 4 megamoe run --group mpi --model DIR --layer 3 --tokens x.safetensors --check)";

struct RunOptions {
  RunRequest request;
  OutputForm form = OutputForm::text;
};

Result<SharedExperts> parse_shared(std::string_view text) {
  if (text == "on") return SharedExperts::on;
  if (text == "off") return SharedExperts::off;
  return invalid_argument("--shared must be on or off", fmt::format("'{}'", text), "choose one of them");
}

Exit run(const RunOptions& options) {
  const Result<RunReport> report = run_layer(options.request);
  if (!report) return report_error(report.status());
  if (!report->is_first_process) return Exit::ok;
  if (options.form == OutputForm::json) {
    print_json(run_json(*report));
  } else {
    print_text(run_text(*report));
  }
  return report->ok() ? Exit::ok : Exit::failed;
}

/// Which layer and which tokens.
void add_inputs(Command& command, RunRequest& request) {
  add_path(command,
           {.name = "--model",
            .value = "PATH",
            .help = "a .safetensors file, a model.safetensors.index.json, or a folder that holds either",
            .presence = Presence::required},
           request.model);
  add_whole(
      command,
      {.name = "--layer", .value = "N", .help = "number of the layer, as in the file", .presence = Presence::required},
      request.layer_idx, {.min = 0, .max = 100'000});
  add_path(command,
           {.name = "--tokens",
            .value = "PATH",
            .help = "a safetensors file with the token rows (see below)",
            .presence = Presence::required},
           request.tokens);
  add_parsed(command,
             {.name = "--format",
              .value = "NAME",
              .help = "fp8|mxfp4|bf16: refuse a model whose routed experts are stored otherwise"},
             request.format, parse_format);
  add_parsed(command,
             {.name = "--shared", .value = "on|off", .help = "run the layer's shared experts too (default off)"},
             request.shared, parse_shared);
}

}  // namespace

void add_run(CommandLine& line) {
  const auto options = std::make_shared<RunOptions>();
  RunRequest& request = options->request;
  Command command = line.add_command("run", "Run one MoE layer of a checkpoint on tokens from a file", kFooter,
                                     [options] { return run(*options); });
  add_inputs(command, request);
  add_parsed(command,
             {.name = "--ranks",
              .value = "N",
              .help = "ranks of the group, 1 to 64 (default 1; with --group mpi the number of processes)"},
             request.num_ranks, whole("--ranks", kRanks));
  add_parsed(command,
             {.name = "--group",
              .value = "NAME",
              .help = "threads: all ranks in this process (default); mpi: one rank per process of mpirun"},
             request.group, parse_group);
  add_whole_list(command, {.name = "--split", .value = "N,N,...", .help = "tokens of each rank (default: even shares)"},
                 request.split, {});
  add_backend(command, request.backend);
  command.add_flag("--check", "compare the output and fail if it is wrong",
                   [&request] { request.checking = Checking::on; });
  add_path(command,
           {.name = "--out",
            .value = "PATH",
            .help = "write the output rows as layers.N.y, BF16 [T, H], to this safetensors file"},
           request.out);
  add_whole(command, {.name = "--repeat", .value = "N", .help = "calls to make and time (default 3)"},
            request.num_calls, kCalls);
  add_timeout(
      command,
      {.name = "--timeout-ms", .value = "MS", .help = "longest wait for another rank, in milliseconds (default 60000)"},
      request.timeout);
  add_timeout(command,
              {.name = "--start-timeout-ms",
               .value = "MS",
               .help = "the same for the first call, as ranks may start minutes apart (default 600000)"},
              request.start_timeout);
  add_tuning(command, request.tuning);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
