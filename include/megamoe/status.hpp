#pragma once

// Status and Result: how every function of MegaMoE reports failure. Nothing here throws.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace megamoe {

/// What kind of failure a Status carries. The numeric values are part of the C ABI.
enum class StatusCode : int32_t {
  ok = 0,
  invalid_argument = 1,     ///< a rule of the interface was broken; the message names rule, value and remedy
  invalid_file = 2,         ///< a file is malformed, truncated or inconsistent
  not_found = 3,            ///< a file, tensor or layer does not exist
  unsupported = 4,          ///< understood, but not available in this build or on this machine
  out_of_memory = 5,        ///< an allocation of the plan could not be made
  timeout = 6,              ///< a bounded wait ran out; the message says who waited for what
  failed_precondition = 7,  ///< the object cannot be used in its present state (a group after a fault)
  internal = 8,             ///< a defect of MegaMoE
};

/// "ok", "invalid_argument", ...
std::string_view to_string(StatusCode code);

/// Outcome of an operation: a code and, unless ok, a message for people.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "ok", or "invalid_argument: hidden must be ...".
  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  /// REQUIRES ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace megamoe
