#pragma once

// Bit cases through the public API on GPUs, for a record or against one.

#include <string>
#include <vector>

#include "check/bits/bit_record.hpp"
#include "check/runner.hpp"

namespace megamoe::bits {

/// Where cases run.
struct BitPlace {
  Backend backend = Backend::sm90;
  std::string model_folder;  ///< of the tiny real model
};

/// "bits/masked_e8m0/pingpong": one run per case of bit_cases(). A case fails unless its rows lie within the bound of
/// the FP64 reference and its strategy ran; its hash goes into `record`, which must stay alive.
std::vector<NamedRun> recording_runs(const BitPlace& place, BitRecord& record);

/// The same, but the hash must be that of `record`, which must stay alive. One more run fails if the record has a case
/// that the list lacks.
std::vector<NamedRun> comparing_runs(const BitPlace& place, const BitRecord& record);

}  // namespace megamoe::bits
