#pragma once

// Bits of a GPU's outputs for `megamoe check`: recorded, or compared with a record.

#include <string>
#include <vector>

#include "check/bits/bit_record.hpp"
#include "check/runner.hpp"

namespace megamoe::cli {

/// What is asked for; files are empty if it is not.
struct BitOptions {
  std::string compare_file;  ///< --bits
  std::string record_file;   ///< --record-bits
  std::string model_folder;  ///< --data; empty = searched

  bool is_asked_for() const { return !compare_file.empty() || !record_file.empty(); }
};

/// The runs of the bit cases; `record` is what they compare with or fill, and must stay alive. Errors:
/// invalid_argument for a backend without recorded bits; whatever the GPU, the record or the tiny model say.
Result<std::vector<NamedRun>> bit_runs(const BitOptions& options, Backend backend, bits::BitRecord& record);

/// Writes the record that the runs filled. Errors: failed_precondition, unless all cases of the list passed.
Status write_bits(const BitOptions& options, const bits::BitRecord& record, const CheckSummary& summary);

}  // namespace megamoe::cli
