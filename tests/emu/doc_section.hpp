#pragma once

// Parts of docs/emulator.md that tests write, so that they are true: the text between
// <!-- begin NAME --> and <!-- end NAME -->.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "emu/machine.hpp"

namespace megamoe::emu::testing {

/// The section must be `text`. With MM_UPDATE_DOCS set, it becomes that.
inline void expect_doc_section(const std::string& name, const std::string& text) {
  const std::string path = MM_SOURCE_DIR "/docs/emulator.md";
  std::stringstream stream;
  stream << std::ifstream(path).rdbuf();
  std::string document = stream.str();
  const std::string begin = "<!-- begin " + name + " -->\n";
  const size_t first = document.find(begin);
  const size_t last = document.find("<!-- end " + name + " -->");
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos) << path << " has no section " << name;
  const size_t start = first + begin.size();
  if (document.substr(start, last - start) == text) return;
  if (std::getenv("MM_UPDATE_DOCS") == nullptr) {
    FAIL() << "section " << name << " of docs/emulator.md must be what this test finds; run it again with "
           << "MM_UPDATE_DOCS=1. It finds:\n"
           << text;
  }
  document.replace(start, last - start, text);
  std::ofstream(path) << document;
}

/// A table of planted faults.
inline constexpr const char* kFaultTableHead = "| planted | finding | needs | seeds |\n|---|---|---|---|\n";
inline std::string fault_table_row(std::string name, FindingKind kind, Races races, const std::string& seeds) {
  std::replace(name.begin(), name.end(), '_', ' ');
  const std::string needs = races == Races::find ? "`Races::find`" : "";
  return "| " + name + " | `" + std::string(to_string(kind)) + "` | " + needs + " | " + seeds + " |\n";
}

}  // namespace megamoe::emu::testing
