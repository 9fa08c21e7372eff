#pragma once

// How the megamoe command talks: exit codes, where text and JSON go, how numbers look.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::cli {

/// JSON whose keys stay in the order in which they were written.
using Json = nlohmann::ordered_json;

/// Exit codes of the command.
enum class Exit : int {
  ok = 0,
  failed = 1,  ///< a check failed, or something went wrong while running
  usage = 2,   ///< bad arguments or bad input files
};

/// What goes to standard output; errors, notes and progress always go to standard error.
enum class OutputForm : uint8_t { text, json };

/// usage for what the caller can mend (arguments, files, features that are not there), else failed.
Exit exit_of(const Status& status);
/// Prints "megamoe: message" to standard error.
Exit report_error(const Status& status);
/// Prints one line to standard error.
void note(std::string_view text);

void print_text(std::string_view text);
void print_json(const Json& json);

/// "805.3 MB (805306368 bytes)"; units are powers of 1000.
std::string format_bytes(uint64_t bytes);
/// The middle of the values, or the mean of the two middle ones. REQUIRES at least one value.
double median(std::vector<double> values);
/// "12.3 us", "4.56 ms" or "1.23 s".
std::string format_seconds(double seconds);
/// `value` of `max_value` as a run of '#', at most `width` long; at least one '#' for anything above zero.
std::string format_bar(double value, double max_value, uint32_t width);

/// Rows of cells in columns: the first column is set left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Every line indented by two spaces and ended by a newline.
  std::string to_text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace megamoe::cli
