#include "check/cublaslt_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

#include "host/errors.hpp"

namespace megamoe {
namespace {

constexpr std::string_view kRemedy =
    "install cuBLAS (PyPI: nvidia-cublas), add the folder of libcublasLt.so to LD_LIBRARY_PATH, or pass --cublaslt "
    "PATH";

std::vector<std::string> usual_names() {
  return {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"};
}

/// The first that loads; it is never unloaded, since CUDA keeps what such libraries have registered. Errors: not_found,
/// with what the loader said to the first: the others' words would be the same.
Result<void*> open_first(const std::vector<std::string>& paths) {
  std::string reason;
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    const char* text = dlerror();
    if (reason.empty()) reason = text != nullptr ? text : "no reason from the loader";
  }
  return error(StatusCode::not_found, "cuBLASLt must be there for the loader", reason, kRemedy);
}

template <class Function>
Status find(void* library, const char* name, Function& function) {
  // POSIX lets the address of a function travel as an object's.
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return {};
  return error(StatusCode::unsupported, "cuBLASLt must have every function that is called",
               fmt::format("a library without {}", name), kRemedy);
}

}  // namespace

Result<CublasLt> CublasLt::load(const std::string& path) {
  const Result<void*> library = open_first(path.empty() ? usual_names() : std::vector<std::string>{path});
  if (!library) return library.status();
  CublasLt functions;
#define MM_FIND(member, function) MM_RETURN_IF_ERROR(find(*library, #function, functions.member));
  MM_CUBLASLT_FUNCTIONS(MM_FIND)
#undef MM_FIND
  return functions;
}

std::string CublasLt::name() const {
  // CUBLAS_VERSION of cublas_api.h, of which versions 12 and 13 have the same.
  const size_t number = version();
  return fmt::format("cuBLASLt {}.{}.{}", number / 10'000, number / 100 % 100, number % 100);
}

Status CublasLt::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  StatusCode code = StatusCode::internal;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) code = StatusCode::unsupported;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = StatusCode::out_of_memory;
  return {code, fmt::format("{}: {} failed: {}", name(), what, status_text(status))};
}

}  // namespace megamoe
