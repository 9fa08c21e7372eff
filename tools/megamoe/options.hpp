#pragma once

// Options as every subcommand declares them: one parser per kind of value, so that the same mistake gets the same
// answer everywhere.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "check/numbers.hpp"
#include "command_line.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

/// An option whose text goes through `parse`, a function from std::string_view to Result<something that fits Target>.
template <class Target, class Parse>
void add_parsed(Command& command, const OptionText& text, Target& target, Parse parse) {
  command.add(text, [&target, parse](std::string_view value) -> Status {
    auto parsed = parse(value);
    if (!parsed) return parsed.status();
    target = *std::move(parsed);
    return {};
  });
}

inline constexpr Range kRanks{.min = 1, .max = 64};
inline constexpr Range kCalls{.min = 1, .max = 1'000'000};

/// A parser of whole numbers in `range`; `name` stands in its errors.
std::function<Result<uint32_t>(std::string_view)> whole(const std::string& name, Range range);

/// A time-out in whole milliseconds, from one to a day.
void add_timeout(Command& command, const OptionText& text, std::chrono::milliseconds& target);
/// A whole number in `range`.
void add_whole(Command& command, const OptionText& text, uint32_t& target, Range range);
/// Whole numbers with commas between.
void add_whole_list(Command& command, const OptionText& text, std::vector<uint32_t>& target, Range range);
/// Text that must not be empty.
void add_path(Command& command, const OptionText& text, std::string& target);

void add_json(Command& command, OutputForm& form);
void add_backend(Command& command, Backend& backend);
/// --threads, --isa, --pin, --block-m, --gemm1-block-n, --gemm2-block-n, --experts-per-wave, --strategy.
void add_tuning(Command& command, Tuning& tuning);
void add_strategy(Command& command, Strategy& strategy);

Result<WeightFormat> parse_format(std::string_view text);
/// "fp8,mxfp4".
Result<std::vector<WeightFormat>> parse_format_list(std::string_view text);

}  // namespace megamoe::cli
