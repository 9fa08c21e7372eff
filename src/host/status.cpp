#include "megamoe/status.hpp"

namespace megamoe {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return "ok";
    case StatusCode::invalid_argument: return "invalid_argument";
    case StatusCode::invalid_file: return "invalid_file";
    case StatusCode::not_found: return "not_found";
    case StatusCode::unsupported: return "unsupported";
    case StatusCode::out_of_memory: return "out_of_memory";
    case StatusCode::timeout: return "timeout";
    case StatusCode::failed_precondition: return "failed_precondition";
    case StatusCode::internal: return "internal";
  }
  return "unknown";
}

std::string Status::to_string() const {
  std::string text{megamoe::to_string(code_)};
  if (!ok()) text += ": " + message_;
  return text;
}

}  // namespace megamoe
