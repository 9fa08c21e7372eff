// megamoe demo: a trained layer on real text over several ranks, checked.

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "host/errors.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_layer.hpp"
#include "tiny_model.hpp"

namespace megamoe::cli {
namespace {

constexpr uint32_t kDemoRanks = 4;
constexpr std::array<uint32_t, 2> kDemoLayers{1, 2};
constexpr std::array kDemoFormats{WeightFormat::fp8_block, WeightFormat::mxfp4};

constexpr std::string_view kFooter = R"(
Runs the two MoE layers of a small byte language model, trained on the King James Bible and the Jargon File, on 512
held-out token rows. The model's routing was learned, so the expert loads are real. Each layer runs with FP8 and with MXFP4
weights, is compared row by row with an FP64 reference of the numerics contract and with outputs stored beside the model,
and has its time per stage printed (means over all workers of the last of three calls).

The last line is `ok`; the exit code is 1 if any comparison fails.

Examples:
  megamoe demo
  megamoe demo --ranks 2 --data /path/to/tiny-moe --json)";

struct DemoOptions {
  std::string data;
  uint32_t num_ranks = kDemoRanks;
  OutputForm form = OutputForm::text;
};

Result<RunReport> run_one(const DemoOptions& options, const std::filesystem::path& data, uint32_t layer_idx,
                          WeightFormat format) {
  RunRequest request;
  request.model = (data / fmt::format("{}.safetensors", to_string(format))).string();
  request.tokens = (data / "probe.safetensors").string();
  request.layer_idx = layer_idx;
  request.num_ranks = options.num_ranks;
  request.format = format;
  request.checking = Checking::on;
  Result<RunReport> report = run_layer(request);
  // A demo that compares with nothing would print ok without looking.
  if (report && !report->stored) {
    return invalid_file(fmt::format("{} must hold stored outputs to compare with", request.tokens),
                        fmt::format("none for layer {} and {}", layer_idx, to_string(format)),
                        "use the tiny model that comes with the project");
  }
  return report;
}

Exit demo(const DemoOptions& options) {
  const Result<std::filesystem::path> data = find_tiny_model(options.data);
  if (!data) return report_error(data.status());
  bool is_ok = true;
  Json runs = Json::array();
  for (const uint32_t layer_idx : kDemoLayers) {
    for (const WeightFormat format : kDemoFormats) {
      const Result<RunReport> report = run_one(options, *data, layer_idx, format);
      if (!report) return report_error(report.status());
      is_ok = is_ok && report->ok();
      if (options.form == OutputForm::json) {
        runs.push_back(run_json(*report));
        continue;
      }
      print_text(fmt::format("== layer {}, {}\n", layer_idx, to_string(format)));
      // Routing does not depend on the experts' format: one picture per layer.
      print_text(layer_text(report->info));
      if (format == kDemoFormats.front()) print_text(load_text(*report));
      print_text(time_text(*report) + check_text(*report) + "\n");
    }
  }
  if (options.form == OutputForm::json) {
    print_json({{"data", data->string()}, {"runs", runs}, {"ok", is_ok}});
  } else {
    print_text(is_ok ? "ok\n" : "FAILED\n");
  }
  return is_ok ? Exit::ok : Exit::failed;
}

}  // namespace

void add_demo(CommandLine& line) {
  const auto options = std::make_shared<DemoOptions>();
  Command command =
      line.add_command("demo", "Run a trained MoE layer on real text over four ranks, in FP8 and MXFP4, and check it",
                       kFooter, [options] { return demo(*options); });
  add_path(
      command,
      {.name = "--data", .value = "PATH", .help = "folder of the tiny model (default: data/tiny-moe of the project)"},
      options->data);
  add_whole(command, {.name = "--ranks", .value = "N", .help = "ranks of the group (default 4)"}, options->num_ranks,
            kRanks);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
