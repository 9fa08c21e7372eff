#pragma once

// Calls the megamoe command and keeps what it printed.

#include <filesystem>
#include <string>

namespace megamoe::testing {

struct CliOutcome {
  int exit_code = -1;  ///< -1: ended by a signal
  std::string out;
  std::string err;
};

/// Runs `megamoe ARGUMENTS` through the shell; neither output is a terminal.
CliOutcome call_cli(const std::string& arguments);

/// The whole file; a file that cannot be read is a test failure.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Of the tiny model that comes with the project.
inline std::string tiny_model_file(const std::string& name) { return MM_SOURCE_DIR "/data/tiny-moe/" + name; }

/// "run --model ... --layer 1 --tokens ..." on the tiny model.
std::string tiny_run(const std::string& format);

}  // namespace megamoe::testing
