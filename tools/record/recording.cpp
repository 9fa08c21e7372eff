#include "recording.hpp"

#include <array>
#include <cstring>
#include <fstream>

namespace megamoe::record {

namespace {

constexpr std::array<char, 4> kMagic = {'M', 'M', 'W', 'R'};
constexpr uint32_t kVersion = 1;

struct Header {
  std::array<char, 4> magic;
  uint32_t version;
  uint32_t num_cases;
  uint32_t num_kept;
  uint32_t num_kept_words;
};

template <class Element>
void write_all(std::ofstream& file, const Element* elements, size_t num_elements) {
  file.write(reinterpret_cast<const char*>(elements), static_cast<std::streamsize>(num_elements * sizeof(Element)));
}

template <class Element>
void read_all(std::ifstream& file, Element* elements, size_t num_elements) {
  file.read(reinterpret_cast<char*>(elements), static_cast<std::streamsize>(num_elements * sizeof(Element)));
}

}  // namespace

bool write_recording(const std::string& path, const Recording& recording) {
  std::ofstream file(path, std::ios::binary);
  const Header header{kMagic, kVersion, static_cast<uint32_t>(recording.hashes.size()), recording.num_kept,
                      static_cast<uint32_t>(recording.kept_words.size())};
  write_all(file, &header, 1);
  write_all(file, recording.hashes.data(), recording.hashes.size());
  write_all(file, recording.kept_words.data(), recording.kept_words.size());
  return file.good();
}

std::optional<Recording> read_recording(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const auto file_bytes = static_cast<uint64_t>(file.tellg());
  file.seekg(0);
  Header header{};
  read_all(file, &header, 1);
  const uint64_t wanted_bytes = sizeof(Header) + uint64_t{header.num_cases} * sizeof(uint64_t) +
                                uint64_t{header.num_kept_words} * sizeof(uint32_t);
  if (!file || header.magic != kMagic || header.version != kVersion || wanted_bytes != file_bytes) return std::nullopt;
  Recording recording{std::vector<uint64_t>(header.num_cases), std::vector<uint32_t>(header.num_kept_words),
                      header.num_kept};
  read_all(file, recording.hashes.data(), recording.hashes.size());
  read_all(file, recording.kept_words.data(), recording.kept_words.size());
  if (!file) return std::nullopt;
  return recording;
}

}  // namespace megamoe::record
