#pragma once

// cuBLASLt, loaded while the program runs: its half gigabyte is wanted for a benchmark's ceiling and nothing else, so
// that nothing of MegaMoE links against it.

#include <cublasLt.h>

#include <string>
#include <string_view>

#include "megamoe/status.hpp"

// X(member, function): every function that is called.
#define MM_CUBLASLT_FUNCTIONS(X)                          \
  X(version, cublasLtGetVersion)                          \
  X(status_text, cublasLtGetStatusString)                 \
  X(create, cublasLtCreate)                               \
  X(destroy, cublasLtDestroy)                             \
  X(create_product, cublasLtMatmulDescCreate)             \
  X(destroy_product, cublasLtMatmulDescDestroy)           \
  X(set_product, cublasLtMatmulDescSetAttribute)          \
  X(create_matrix, cublasLtMatrixLayoutCreate)            \
  X(destroy_matrix, cublasLtMatrixLayoutDestroy)          \
  X(create_preference, cublasLtMatmulPreferenceCreate)    \
  X(destroy_preference, cublasLtMatmulPreferenceDestroy)  \
  X(set_preference, cublasLtMatmulPreferenceSetAttribute) \
  X(propose, cublasLtMatmulAlgoGetHeuristic)              \
  X(multiply, cublasLtMatmul)

namespace megamoe {

/// The library's functions, which stay callable until the program ends.
struct CublasLt {
#define MM_MEMBER(member, function) decltype(&::function) member{};  // NOLINT(bugprone-macro-parentheses)
  MM_CUBLASLT_FUNCTIONS(MM_MEMBER)
#undef MM_MEMBER

  /// `path` is a file; empty: the names by which the loader may know the library, newest first, then the CUDA toolkit's
  /// usual folder. Errors: not_found, with the loader's words; unsupported, naming the function that is not there.
  static Result<CublasLt> load(const std::string& path);

  /// "cuBLASLt 13.1.0".
  std::string name() const;
  /// Ok, or `what` failed with the library's own words: unsupported where it has no such product, out_of_memory, else
  /// internal.
  Status check(cublasStatus_t status, std::string_view what) const;
};

}  // namespace megamoe
