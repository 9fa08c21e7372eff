// megamoe inspect: the MoE layers of a checkpoint.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "report.hpp"

namespace megamoe::cli {
namespace {

constexpr std::string_view kFooter = R"(
Recognises the tensor names of DeepSeek V2/V3, DeepSeek V4, Qwen3, Mixtral and gpt-oss. config.json beside the file says
how many experts a token visits and how the router scores; without it those are listed as missing. Nothing is loaded: the
files are mapped and their headers validated.

Exit code 0 means the files are sound. What a layer misses is listed as MISSING; tensors of it whose meaning its naming
does not define, as UNKNOWN: `megamoe run` refuses such a layer.

Examples:
  megamoe inspect data/tiny-moe/fp8.safetensors
  megamoe inspect /models/DeepSeek-V3 --json)";

struct InspectOptions {
  std::string path;
  OutputForm form = OutputForm::text;
};

std::string router_text(const MoeLayerInfo& info) {
  if (!info.router) return "none that is complete";
  const RouterConfig& router = *info.router;
  std::string kind;
  switch (router.kind) {
    case RouterKind::softmax_topk: kind = "softmax over all, then top-k"; break;
    case RouterKind::topk_softmax: kind = "top-k, then softmax"; break;
    case RouterKind::sigmoid_bias: kind = "sigmoid with selection bias"; break;
    case RouterKind::sqrt_softplus_bias: kind = "sqrt(softplus) with selection bias"; break;
  }
  if (router.num_groups > 1) kind += fmt::format(", best {} of {} groups", router.num_top_groups, router.num_groups);
  return fmt::format("{}{}, scale {}", kind, router.renormalise ? ", renormalised" : "", router.scale);
}

std::string details_text(const MoeLayerInfo& info) {
  std::string text = layer_text(info);
  const auto add = [&text](std::string_view what, std::string_view value) {
    text += fmt::format("  {:<15} {}\n", what, value);
  };
  if (info.shape.num_shared_experts > 0) {
    add("shared experts", fmt::format("{} ({})", info.shape.num_shared_experts,
                                      info.shared_format ? to_string(*info.shared_format) : "format unknown"));
  }
  add("gate and up", to_string(info.layout));
  if (info.has_biases) add("biases", "yes");
  const ActivationOptions& activation = info.activation;
  add("activation", fmt::format("alpha {}, up offset {}, limit {}", activation.alpha, activation.up_offset,
                                activation.limit ? fmt::format("{}", *activation.limit) : "none"));
  add("router", router_text(info));
  for (const std::string& missing : info.missing) add("MISSING", missing);
  for (const std::string& unknown : info.unknown) add("UNKNOWN", unknown);
  return text;
}

Exit inspect(const InspectOptions& options) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(options.path);
  if (!checkpoint) return report_error(checkpoint.status());
  if (options.form == OutputForm::json) {
    Json layers = Json::array();
    for (const MoeLayerInfo& info : checkpoint->layers()) layers.push_back(layer_json(info));
    print_json({{"path", checkpoint->path()},
                {"num_bytes", checkpoint->num_bytes()},
                {"num_tensors", checkpoint->num_tensors()},
                {"layers", layers}});
    return Exit::ok;
  }
  print_text(fmt::format("{}: {} tensors, {}, {} MoE layers\n", checkpoint->path(), checkpoint->num_tensors(),
                         format_bytes(checkpoint->num_bytes()), checkpoint->layers().size()));
  for (const MoeLayerInfo& info : checkpoint->layers()) print_text(details_text(info));
  return Exit::ok;
}

}  // namespace

void add_inspect(CommandLine& line) {
  const auto options = std::make_shared<InspectOptions>();
  Command command =
      line.add_command("inspect", "List the MoE layers of a checkpoint: shapes, formats, names, and what is missing",
                       kFooter, [options] { return inspect(*options); });
  add_path(command,
           {.name = "FILE",
            .value = "PATH",
            .help = "a .safetensors file, a model.safetensors.index.json, or a folder that holds either",
            .presence = Presence::required},
           options->path);
  add_json(command, options->form);
}

}  // namespace megamoe::cli
