#include "console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace megamoe::cli {

Exit exit_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok: return Exit::ok;
    case StatusCode::invalid_argument:
    case StatusCode::invalid_file:
    case StatusCode::not_found:
    case StatusCode::unsupported: return Exit::usage;
    case StatusCode::out_of_memory:
    case StatusCode::timeout:
    case StatusCode::failed_precondition:
    case StatusCode::internal: return Exit::failed;
  }
  return Exit::failed;
}

Exit report_error(const Status& status) {
  note(fmt::format("megamoe: {}", status.to_string()));
  return exit_of(status);
}

void note(std::string_view text) { fmt::print(stderr, "{}\n", text); }

void print_text(std::string_view text) { fmt::print(stdout, "{}", text); }

void print_json(const Json& json) {
  // Names and paths may hold bytes that are not UTF-8; the replacement character keeps the output valid.
  fmt::print(stdout, "{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"bytes", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  size_t unit_idx = 0;
  while (value >= 1000 && unit_idx + 1 < kUnits.size()) {
    value /= 1000;
    ++unit_idx;
  }
  return fmt::format("{:.1f} {} ({} bytes)", value, kUnits[unit_idx], bytes);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string format_bar(double value, double max_value, uint32_t width) {
  if (!(value > 0) || !(max_value > 0)) return "";
  const auto length = static_cast<size_t>(std::lround(value / max_value * width));
  return std::string(std::clamp<size_t>(length, 1, width), '#');
}

std::string Table::to_text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format(" {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace megamoe::cli
