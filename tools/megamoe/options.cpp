#include "options.hpp"

#include <fmt/format.h>

#include "group_kind.hpp"
#include "host/errors.hpp"

namespace megamoe::cli {
namespace {

constexpr Range kThreads{.min = 1, .max = 1024};
constexpr Range kTimeoutMs{.min = 1, .max = 86'400'000};
constexpr Range kTile{.min = 1, .max = 1 << 20};

}  // namespace

std::function<Result<uint32_t>(std::string_view)> whole(const std::string& name, Range range) {
  return [name, range](std::string_view text) { return parse_whole(name, text, range); };
}

void add_timeout(Command& command, const OptionText& text, std::chrono::milliseconds& target) {
  const auto parse = [name = text.name](std::string_view value) -> Result<std::chrono::milliseconds> {
    const Result<uint32_t> count = parse_whole(name, value, kTimeoutMs);
    if (!count) return count.status();
    return std::chrono::milliseconds{*count};
  };
  add_parsed(command, text, target, parse);
}

void add_whole(Command& command, const OptionText& text, uint32_t& target, Range range) {
  add_parsed(command, text, target, whole(text.name, range));
}

void add_whole_list(Command& command, const OptionText& text, std::vector<uint32_t>& target, Range range) {
  const auto parse = [name = text.name, range](std::string_view value) { return parse_whole_list(name, value, range); };
  add_parsed(command, text, target, parse);
}

void add_path(Command& command, const OptionText& text, std::string& target) {
  const auto parse = [name = text.name](std::string_view value) -> Result<std::string> {
    if (!value.empty()) return std::string{value};
    return invalid_argument(fmt::format("{} must be a path", name), "an empty one", "name a file");
  };
  add_parsed(command, text, target, parse);
}

void add_json(Command& command, OutputForm& form) {
  command.add_flag("--json", "print one JSON value on standard output and nothing else there",
                   [&form] { form = OutputForm::json; });
}

void add_backend(Command& command, Backend& backend) {
  add_parsed(
      command,
      {.name = "--backend",
       .value = "NAME",
       .help =
           "auto|cpu|sm90|sm100|chain: where the layer runs: threads, Hopper or Blackwell GPUs; chain is sm90 as one "
           "launch per stage (default auto: cpu)"},
      backend, parse_backend);
}

void add_tuning(Command& command, Tuning& tuning) {
  const auto add = [&command](const std::string& name, const std::string& help, uint32_t& target, Range range) {
    add_whole(command, {.name = name, .value = "N", .help = help, .group = "Tuning (changes no bit of the result)"},
              target, range);
  };
  add("--threads", "worker threads per rank (default: CPUs of the affinity mask or the CPU quota / ranks, at least 1)",
      tuning.threads_per_rank, kThreads);
  add("--block-m", "pool rows per block: 16, 32, 64, 128 or 256", tuning.block_m, kTile);
  add("--gemm1-block-n", "intermediate columns per gemm1 tile, a multiple of 128", tuning.gemm1_block_n, kTile);
  add("--gemm2-block-n", "hidden columns per gemm2 tile, a multiple of 16", tuning.gemm2_block_n, kTile);
  add("--experts-per-wave", "local experts whose gemm1 tiles come before their gemm2 tiles", tuning.experts_per_wave,
      kTile);
  add_parsed(command,
             {.name = "--isa",
              .value = "NAME",
              .help = "auto|scalar|avx2|avx512|avx512_bf16|amx_bf16: instruction set of the CPU kernels (default auto: "
                      "the widest); "
                      "the last two round in orders of their own",
              .group = "Tuning (changes no bit of the result)"},
             tuning.isa, parse_isa);
  add_parsed(command,
             {.name = "--pin",
              .value = "WHERE",
              .help = "auto|none|node|core: what each thread stays on, a NUMA node or a core; memory follows (default "
                      "auto: node where the threads fill several nodes, else none)",
              .group = "Tuning (changes no bit of the result)"},
             tuning.pin, parse_pin);
  add_strategy(command, tuning.strategy);
}

void add_strategy(Command& command, Strategy& strategy) {
  add_parsed(command,
             {.name = "--strategy",
              .value = "NAME",
              .help = "auto|cooperative|pingpong|small_batch: how the Hopper kernels lay tiles on the tensor cores "
                      "(default auto: `megamoe plan` prints the rule; only with --backend sm90 or chain)",
              .group = "Tuning (changes no bit of the result)"},
             strategy, parse_strategy);
}

Result<GroupKind> parse_group(std::string_view text) {
  for (const GroupKind group : {GroupKind::threads, GroupKind::mpi}) {
    if (text == to_string(group)) return group;
  }
  return invalid_argument("--group must be threads or mpi", fmt::format("'{}'", text),
                          "threads: all ranks in this process; mpi: one rank per process of mpirun");
}

std::string_view to_string(GroupKind group) { return group == GroupKind::mpi ? "mpi" : "threads"; }

Result<WeightFormat> parse_format(std::string_view text) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::mxfp4, WeightFormat::bf16}) {
    if (text == to_string(format)) return format;
  }
  return invalid_argument("--format must be fp8, mxfp4 or bf16", fmt::format("'{}'", text),
                          "choose the storage format of the routed experts' weights");
}

Result<std::vector<WeightFormat>> parse_format_list(std::string_view text) {
  std::vector<WeightFormat> formats;
  for (const std::string_view piece : split_commas(text)) {
    const Result<WeightFormat> format = parse_format(piece);
    if (!format) return format.status();
    formats.push_back(*format);
  }
  return formats;
}

}  // namespace megamoe::cli
