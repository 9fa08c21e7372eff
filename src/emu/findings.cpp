#include "emu/findings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace megamoe::emu {

namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

std::string_view to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::deadlock: return "deadlock";
    case FindingKind::unwritten_read: return "unwritten_read";
    case FindingKind::out_of_bounds: return "out_of_bounds";
    case FindingKind::misaligned: return "misaligned";
    case FindingKind::write_write_race: return "write_write_race";
    case FindingKind::read_write_race: return "read_write_race";
    case FindingKind::arrival_count: return "arrival_count";
    case FindingKind::barrier_misuse: return "barrier_misuse";
    case FindingKind::missed_phase: return "missed_phase";
    case FindingKind::missing_proxy_fence: return "missing_proxy_fence";
    case FindingKind::copy_in_flight: return "copy_in_flight";
    case FindingKind::divergent_collective: return "divergent_collective";
    case FindingKind::mma_order: return "mma_order";
    case FindingKind::registers: return "registers";
    case FindingKind::invalid_copy: return "invalid_copy";
    case FindingKind::launch: return "launch";
    case FindingKind::kernel_exception: return "kernel_exception";
    case FindingKind::step_limit: return "step_limit";
  }
  return "unknown";
}

std::string Finding::to_string() const {
  return fmt::format("seed {}, rank {}, block {}, warp {}, lane {}, {}:{}: {}: {}", seed, rank, block, warp, lane,
                     base_name(file), line, emu::to_string(kind), text);
}

bool Report::found(FindingKind kind) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.kind == kind; });
}

std::string Report::to_string() const {
  if (findings.empty()) return "clean";
  std::string text;
  for (const Finding& finding : findings) text += finding.to_string() + "\n";
  return text;
}

std::string short_location(const Where& where) {
  return fmt::format("{}:{}", base_name(where.file_name()), where.line());
}

}  // namespace megamoe::emu
