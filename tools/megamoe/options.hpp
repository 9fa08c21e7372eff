#pragma once

// Options as every subcommand declares them: one parser per kind of value, so that the same mistake gets the same
// answer everywhere.

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/numbers.hpp"
#include "console.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

/// An option whose text goes through `parse`; what parse refuses becomes a usage error with parse's message.
template <class Target, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, Target& target, Parse parse, const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&target, parse, name](const std::string& text) {
        auto value = parse(std::string_view{text});
        if (!value) throw CLI::ValidationError(value.status().message(), CLI::ExitCodes::ValidationError);
        target = *std::move(value);
      },
      help);
}

/// A whole number in `range`.
CLI::Option* add_whole(CLI::App& app, const std::string& name, uint32_t& target, Range range, const std::string& help);
/// Whole numbers with commas between.
CLI::Option* add_whole_list(CLI::App& app, const std::string& name, std::vector<uint32_t>& target, Range range,
                            const std::string& help);
/// Text that must not be empty (a path).
CLI::Option* add_path(CLI::App& app, const std::string& name, std::string& target, const std::string& help);

CLI::Option* add_json(CLI::App& app, OutputForm& form);
CLI::Option* add_ranks(CLI::App& app, uint32_t& num_ranks);
CLI::Option* add_backend(CLI::App& app, Backend& backend);
CLI::Option* add_timeout(CLI::App& app, std::chrono::milliseconds& timeout);
/// --threads, --isa, --block-m, --gemm1-block-n, --gemm2-block-n, --experts-per-wave.
void add_tuning(CLI::App& app, Tuning& tuning);

Result<WeightFormat> parse_format(std::string_view text);
/// "fp8,mxfp4".
Result<std::vector<WeightFormat>> parse_format_list(std::string_view text);

}  // namespace megamoe::cli
