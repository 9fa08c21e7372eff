#include "options.hpp"

#include <fmt/format.h>

#include <array>

#include "group_kind.hpp"
#include "host/errors.hpp"

namespace megamoe::cli {
namespace {

constexpr Range kRanks{.min = 1, .max = 64};
constexpr Range kThreads{.min = 1, .max = 1024};
constexpr Range kTimeoutMs{.min = 1, .max = 86'400'000};
constexpr Range kTile{.min = 1, .max = 1 << 20};

}  // namespace

CLI::Option* add_whole(CLI::App& app, const std::string& name, uint32_t& target, Range range, const std::string& help) {
  const auto parse = [name, range](std::string_view text) { return parse_whole(name, text, range); };
  return add_parsed(app, name, target, parse, help)->type_name("N");
}

CLI::Option* add_whole_list(CLI::App& app, const std::string& name, std::vector<uint32_t>& target, Range range,
                            const std::string& help) {
  const auto parse = [name, range](std::string_view text) { return parse_whole_list(name, text, range); };
  return add_parsed(app, name, target, parse, help)->type_name("N,N,...");
}

CLI::Option* add_path(CLI::App& app, const std::string& name, std::string& target, const std::string& help) {
  const auto parse = [name](std::string_view text) -> Result<std::string> {
    if (!text.empty()) return std::string{text};
    return invalid_argument(fmt::format("{} must be a path", name), "an empty one", "name a file");
  };
  return add_parsed(app, name, target, parse, help)->type_name("PATH");
}

CLI::Option* add_json(CLI::App& app, OutputForm& form) {
  return app.add_flag_callback(
      "--json", [&form] { form = OutputForm::json; }, "print one JSON value on standard output and nothing else there");
}

CLI::Option* add_ranks(CLI::App& app, uint32_t& num_ranks) {
  return add_whole(app, "--ranks", num_ranks, kRanks, "ranks of the expert-parallel group, 1 to 64 (default 1)");
}

CLI::Option* add_backend(CLI::App& app, Backend& backend) {
  return add_parsed(app, "--backend", backend, parse_backend,
                    "auto|cpu|sm90|sm100: where the layer runs (default auto: the best that this machine has)")
      ->type_name("NAME");
}

CLI::Option* add_timeout(CLI::App& app, std::chrono::milliseconds& timeout) {
  const auto parse = [](std::string_view text) -> Result<std::chrono::milliseconds> {
    const Result<uint32_t> value = parse_whole("--timeout-ms", text, kTimeoutMs);
    if (!value) return value.status();
    return std::chrono::milliseconds{*value};
  };
  return add_parsed(app, "--timeout-ms", timeout, parse,
                    "longest wait for another rank, in milliseconds (default 60000)")
      ->type_name("MS");
}

void add_tuning(CLI::App& app, Tuning& tuning) {
  const std::string group = "Tuning (none of these changes one bit of the result)";
  add_whole(app, "--threads", tuning.threads_per_rank, kThreads,
            "worker threads per rank (default: hardware threads / ranks, at least 1)")
      ->group(group);
  add_parsed(app, "--isa", tuning.isa, parse_isa,
             "auto|scalar|avx2|avx512: instruction set of the CPU kernels (default auto: the widest)")
      ->type_name("NAME")
      ->group(group);
  add_whole(app, "--block-m", tuning.block_m, kTile, "pool rows per block: 16, 32, 64, 128 or 256")->group(group);
  add_whole(app, "--gemm1-block-n", tuning.gemm1_block_n, kTile,
            "intermediate columns per gemm1 tile, a multiple of 128")
      ->group(group);
  add_whole(app, "--gemm2-block-n", tuning.gemm2_block_n, kTile, "hidden columns per gemm2 tile, a multiple of 16")
      ->group(group);
  add_whole(app, "--experts-per-wave", tuning.experts_per_wave, kTile,
            "local experts whose gemm1 tiles come before their gemm2 tiles")
      ->group(group);
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
