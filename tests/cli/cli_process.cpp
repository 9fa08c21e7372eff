#include "cli_process.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace megamoe::testing {

CliOutcome call_cli(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command =
      MM_CLI " " + arguments + " >" + folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  const int status = std::system(command.c_str());
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_file(folder.file("out")),
          .err = read_file(folder.file("err"))};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  EXPECT_TRUE(file.flush()) << path;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "megamoe-cli-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string tiny_run(const std::string& format) {
  return "run --model " + tiny_model_file(format + ".safetensors") + " --layer 1 --tokens " +
         tiny_model_file("probe.safetensors");
}

}  // namespace megamoe::testing
