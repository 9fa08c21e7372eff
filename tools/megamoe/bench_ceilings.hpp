#pragma once

// What the machine does at best, measured in the same run as the layers that are held against it.

#include <optional>
#include <string>

#include "console.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe::cli {

/// On the CPU of all worker threads, on GPUs of one GPU.
struct Ceilings {
  std::optional<double> gflops;  ///< none: no_gflops says why
  /// What is multiplied: "FP32 multiply-adds"; "FP8 products by cuBLASLt 13.1.0, promoted to FP32".
  std::string arithmetic;
  std::string no_gflops;
  double read_gbytes_per_s = 0;
};

/// Ceilings for a layer of this plan. `cublaslt` is the library that tells a GPU's FP8 rate; empty: the system is
/// searched, and without one there is no such ceiling. Errors: a library that was named and cannot be used; whatever
/// the measurements report.
Result<Ceilings> measure_ceilings(const PlanInfo& plan, const std::string& cublaslt);

/// "100.0 GFLOP/s (FP32 multiply-adds), 20.0 GB/s read".
std::string ceilings_text(const Ceilings& ceilings);
Json ceilings_json(const Ceilings& ceilings);

}  // namespace megamoe::cli
