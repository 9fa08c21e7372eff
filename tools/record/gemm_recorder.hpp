#pragma once

#include <string>

namespace megamoe::record {

/// Runs the GEMMs of gemm_cases.hpp on the GPU and writes FOLDER/gemm.rec; false when anything failed.
bool record_gemms(const std::string& folder);

}  // namespace megamoe::record
