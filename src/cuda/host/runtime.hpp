#pragma once

// The CUDA runtime as MegaMoE uses it: failures as Status, memory, streams and events that clean up behind themselves.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megamoe/status.hpp"

namespace megamoe::cuda {

/// Ok, or `what` failed with CUDA's own words. out_of_memory where CUDA says so, else internal.
Status check(cudaError_t code, std::string_view what);

/// What the library needs to know about one GPU.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  uint32_t num_sms = 0;
  uint64_t l2_bytes = 0;
  uint64_t memory_bytes = 0;
};

/// The visible GPUs. Errors: unsupported, when there is no driver or no GPU.
Result<std::vector<DeviceInfo>> devices();
/// Those of compute capability 9.0, which sm_90a code runs on. Errors: unsupported, when there is none.
Result<std::vector<DeviceInfo>> hopper_devices();

/// Lets kernels on each device load from and store to all others. Errors: unsupported, naming the first pair that
/// cannot.
Status enable_peer_access(const std::vector<int>& ordinals);

/// Makes `ordinal` current for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

/// One allocation on one device, zeroed.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(int ordinal, uint64_t num_bytes);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  uint64_t num_bytes() const { return num_bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  uint64_t num_bytes_ = 0;
};

/// One allocation of host memory that GPUs copy from and to without the driver's own copies, zeroed.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(uint64_t num_bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// A stream of one device that does not wait for the default stream.
class Stream {
 public:
  static Result<Stream> create(int ordinal);
  Stream() = default;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  cudaStream_t get() const { return stream_; }
  int ordinal() const { return ordinal_; }
  Status synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
  int ordinal_ = 0;
};

/// A point in a stream's time.
class Event {
 public:
  /// REQUIRES the device on whose streams it is recorded is current.
  static Result<Event> create();
  Event() = default;
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  Status record(const Stream& stream) const;
  /// Seconds from `begin` to this one. REQUIRES both have been reached.
  Result<double> seconds_since(const Event& begin) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace megamoe::cuda
