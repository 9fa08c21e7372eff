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
  uint32_t num_ranks = 1;
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

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  CLI::App* run_app = app.add_subcommand("run", "Run one MoE layer of a checkpoint on tokens from a file");
  run_app->footer(std::string{kFooter});
  const auto options = std::make_shared<RunOptions>();
  RunRequest& request = options->request;
  add_path(*run_app, "--model", request.model,
           "a .safetensors file, a model.safetensors.index.json, or a folder that holds either")
      ->required();
  add_whole(*run_app, "--layer", request.layer_idx, {.min = 0, .max = 100'000}, "number of the layer, as in the file")
      ->required();
  add_path(*run_app, "--tokens", request.tokens, "a safetensors file with the token rows (see below)")->required();
  CLI::Option* ranks = add_ranks(*run_app, options->num_ranks);
  add_backend(*run_app, request.backend);
  const auto parse_expected = [](std::string_view text) -> Result<std::optional<WeightFormat>> {
    const Result<WeightFormat> format = parse_format(text);
    if (!format) return format.status();
    return std::optional(*format);
  };
  add_parsed(*run_app, "--format", request.format, parse_expected,
             "fp8|mxfp4|bf16: refuse a model whose routed experts are stored otherwise")
      ->type_name("NAME");
  add_parsed(*run_app, "--group", request.group, parse_group,
             "threads: all ranks in this process (default); mpi: one rank per process of mpirun")
      ->type_name("NAME");
  add_whole_list(*run_app, "--split", request.split, {}, "tokens of each rank (default: even shares)");
  add_parsed(*run_app, "--shared", request.shared, parse_shared,
             "on|off: run the layer's shared experts too (default off)")
      ->type_name("on|off");
  run_app->add_flag_callback(
      "--check", [&request] { request.checking = Checking::on; }, "compare the output and fail if it is wrong");
  add_path(*run_app, "--out", request.out,
           "write the output rows as layers.N.y, BF16 [T, H], to this safetensors file");
  add_whole(*run_app, "--repeat", request.num_calls, {.min = 1, .max = 1'000'000},
            "calls to make and time (default 3)");
  add_timeout(*run_app, request.timeout);
  add_tuning(*run_app, request.tuning);
  add_json(*run_app, options->form);
  run_app->callback([options, ranks, &chosen] {
    if (ranks->count() > 0) options->request.num_ranks = options->num_ranks;
    chosen = [options] { return run(*options); };
  });
}

}  // namespace megamoe::cli
