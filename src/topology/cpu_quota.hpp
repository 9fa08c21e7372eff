#pragma once

// How much CPU time the control groups grant to this process. A container with "2 CPUs" often still sees all of the
// host's, and threads beyond its quota only make each other wait for the next period.

#include <filesystem>
#include <optional>

namespace megamoe::topology {

/// CPUs' worth of time per period: the smallest quota of this process's control group and of all groups above it that
/// can be seen, version 1 and version 2 (both may be mounted). None if nothing limits it; what cannot be read or makes
/// no sense limits nothing. `root` is where /proc and the mounts are looked for: "/", or a folder of a test.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace megamoe::topology
