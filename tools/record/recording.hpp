#pragma once

// The file that a recorder run leaves of one set of cases: a hash of every result, and the first results in full.
//
//   char magic[4] = "MMWR"; uint32_t version, num_cases, num_kept, num_kept_words;
//   uint64_t hashes[num_cases]; uint32_t words[num_kept_words];          little-endian
// The words are FP32 bits of D [64, n], row after row, case after case.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace megamoe::record {

struct Recording {
  std::vector<uint64_t> hashes;      // one per case
  std::vector<uint32_t> kept_words;  // of the first num_kept cases
  uint32_t num_kept = 0;
};

/// False when the file could not be written whole.
bool write_recording(const std::string& path, const Recording& recording);

/// Empty when there is no such file or its sizes do not add up.
std::optional<Recording> read_recording(const std::string& path);

}  // namespace megamoe::record
