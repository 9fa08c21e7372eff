// Version 2 has one hierarchy and a file cpu.max ("200000 100000" or "max 100000"); version 1 has one hierarchy per
// controller and two files, cpu.cfs_quota_us (-1 is none) and cpu.cfs_period_us. /proc/self/cgroup names the process's
// group in each hierarchy, /proc/self/mountinfo where hierarchies, or parts of them, are mounted.

#include "topology/cpu_quota.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace megamoe::topology {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultPeriod = 100'000;  // microseconds, where a cpu.max names none

enum class Version : uint8_t { v1, v2 };

/// A mount of a hierarchy that can hold CPU quotas.
struct Mount {
  Version version;
  fs::path group;   ///< the group of the hierarchy that is mounted
  fs::path folder;  ///< where
};

bool has_word(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

/// A line of mountinfo: "31 23 0:28 ROOT FOLDER OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS".
std::optional<Mount> parse_mount(const std::string& line) {
  const std::vector<std::string> all = words(line);
  const auto dash = std::find(all.begin(), all.end(), "-");
  if (dash - all.begin() < 6 || all.end() - dash < 4) return std::nullopt;
  const std::string& type = dash[1];
  if (type == "cgroup2") return Mount{Version::v2, all[3], all[4]};
  if (type == "cgroup" && has_word(dash[3], "cpu")) return Mount{Version::v1, all[3], all[4]};
  return std::nullopt;
}

/// The group of a line of /proc/self/cgroup, "0::GROUP" in version 2 and "4:cpu,cpuacct:GROUP" in version 1, if the
/// line belongs to the hierarchy of `version` that holds CPU quotas.
std::optional<std::string> parse_group(const std::string& line, Version version) {
  const size_t first = line.find(':');
  if (first == std::string::npos) return std::nullopt;
  const size_t second = line.find(':', first + 1);
  if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) return std::nullopt;
  const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
  const bool is_it = version == Version::v2 ? controllers.empty() : has_word(controllers, "cpu");
  return is_it ? std::optional(line.substr(second + 1)) : std::nullopt;
}

/// The whole number that `text` is, or none.
std::optional<int64_t> whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> words_of_file(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return words(line);
}

std::optional<double> ratio(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// What the group in `folder` itself grants.
std::optional<double> quota_of(Version version, const fs::path& folder) {
  if (version == Version::v2) {
    const auto max = words_of_file(folder / "cpu.max");
    if (max.empty() || max.size() > 2) return std::nullopt;
    return ratio(whole(max[0]), max.size() == 2 ? whole(max[1]) : kDefaultPeriod);
  }
  const auto quota = words_of_file(folder / "cpu.cfs_quota_us");
  const auto period = words_of_file(folder / "cpu.cfs_period_us");
  if (quota.size() != 1 || period.size() != 1) return std::nullopt;
  return ratio(whole(quota[0]), whole(period[0]));
}

/// `group` as seen from the mount; the mount itself where the group lies outside of it, as in a container that shows
/// its own group only but names it by the host's path.
fs::path below_mount(const Mount& mount, const fs::path& group) {
  fs::path relative = group.lexically_normal().lexically_relative(mount.group);
  if (relative.empty() || *relative.begin() == "..") return ".";
  return relative;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> smallest;
  const std::vector<std::string> groups = lines_of(root / "proc/self/cgroup");
  for (const std::string& mount_line : lines_of(root / "proc/self/mountinfo")) {
    const std::optional<Mount> mount = parse_mount(mount_line);
    if (!mount) continue;
    for (const std::string& group_line : groups) {
      const std::optional<std::string> group = parse_group(group_line, mount->version);
      if (!group) continue;
      const fs::path top = root / mount->folder.relative_path();
      fs::path relative = below_mount(*mount, *group);
      while (true) {
        const std::optional<double> quota = quota_of(mount->version, top / relative);
        if (quota && (!smallest || *quota < *smallest)) smallest = quota;
        if (relative == "." || relative.empty()) break;
        relative = relative.parent_path();
      }
    }
  }
  return smallest;
}

}  // namespace megamoe::topology
