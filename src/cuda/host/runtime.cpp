#include "cuda/host/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/errors.hpp"

namespace megamoe::cuda {

Status check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return {};
  const StatusCode kind = code == cudaErrorMemoryAllocation ? StatusCode::out_of_memory : StatusCode::internal;
  return {kind, fmt::format("{} failed: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code))};
}

Result<std::vector<DeviceInfo>> devices() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    return error(StatusCode::unsupported, "a GPU and its driver must be visible",
                 code == cudaSuccess ? "no device" : cudaGetErrorString(code),
                 "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use the cpu backend");
  }
  std::vector<DeviceInfo> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    MM_RETURN_IF_ERROR(check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"));
    found.push_back({.ordinal = ordinal,
                     .name = properties.name,
                     .compute_major = properties.major,
                     .compute_minor = properties.minor,
                     .num_sms = static_cast<uint32_t>(properties.multiProcessorCount),
                     .l2_bytes = static_cast<uint64_t>(properties.l2CacheSize),
                     .memory_bytes = properties.totalGlobalMem});
  }
  return found;
}

Result<std::vector<DeviceInfo>> hopper_devices() {
  auto all = devices();
  if (!all) return all.status();
  std::vector<DeviceInfo> found;
  std::copy_if(all->begin(), all->end(), std::back_inserter(found),
               [](const DeviceInfo& device) { return device.compute_major == 9 && device.compute_minor == 0; });
  if (!found.empty()) return found;
  const DeviceInfo& first = all->front();
  return error(StatusCode::unsupported, "a GPU of compute capability 9.0 (Hopper) must be visible",
               fmt::format("{} with {}.{}", first.name, first.compute_major, first.compute_minor),
               "use the cpu backend");
}

Status enable_peer_access(const std::vector<int>& ordinals) {
  for (const int from : ordinals) {
    const DeviceScope scope(from);
    for (const int to : ordinals) {
      if (from == to) continue;
      int can = 0;
      MM_RETURN_IF_ERROR(check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer"));
      if (can == 0) {
        return error(StatusCode::unsupported, "every GPU of a group must be able to load from every other",
                     fmt::format("GPU {} cannot reach GPU {}", from, to),
                     "choose GPUs that NVLink connects (nvidia-smi topo -m)");
      }
      const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        continue;
      }
      MM_RETURN_IF_ERROR(check(code, "cudaDeviceEnablePeerAccess"));
    }
  }
  return {};
}

DeviceScope::DeviceScope(int ordinal) {
  (void)cudaGetDevice(&before_);
  (void)cudaSetDevice(ordinal);
}
DeviceScope::~DeviceScope() { (void)cudaSetDevice(before_); }

Result<DeviceMemory> DeviceMemory::allocate(int ordinal, uint64_t num_bytes) {
  const DeviceScope scope(ordinal);
  DeviceMemory memory;
  void* data = nullptr;
  const std::string what = fmt::format("allocating {} bytes on GPU {}", num_bytes, ordinal);
  MM_RETURN_IF_ERROR(check(cudaMalloc(&data, std::max<uint64_t>(num_bytes, 1)), what));
  memory.data_ = static_cast<std::byte*>(data);
  memory.num_bytes_ = num_bytes;
  MM_RETURN_IF_ERROR(check(cudaMemset(data, 0, num_bytes), "cudaMemset"));
  // Before any stream that does not wait for this one uses it.
  MM_RETURN_IF_ERROR(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return memory;
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}
DeviceMemory::~DeviceMemory() { (void)cudaFree(data_); }

Result<PinnedMemory> PinnedMemory::allocate(uint64_t num_bytes) {
  PinnedMemory memory;
  void* data = nullptr;
  const std::string what = fmt::format("pinning {} bytes of host memory", num_bytes);
  MM_RETURN_IF_ERROR(check(cudaHostAlloc(&data, std::max<uint64_t>(num_bytes, 1), cudaHostAllocPortable), what));
  memory.data_ = static_cast<std::byte*>(data);
  std::memset(data, 0, num_bytes);
  return memory;
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}
PinnedMemory::~PinnedMemory() { (void)cudaFreeHost(data_); }

Result<Stream> Stream::create(int ordinal) {
  const DeviceScope scope(ordinal);
  Stream stream;
  stream.ordinal_ = ordinal;
  MM_RETURN_IF_ERROR(check(cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
  return stream;
}
Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)), ordinal_(other.ordinal_) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(ordinal_, other.ordinal_);
  return *this;
}
Stream::~Stream() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}
Status Stream::synchronize() const { return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

Result<Event> Event::create() {
  Event event;
  MM_RETURN_IF_ERROR(check(cudaEventCreate(&event.event_), "cudaEventCreate"));
  return event;
}
Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}
Event::~Event() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}
Status Event::record(const Stream& stream) const {
  return check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}
Result<double> Event::seconds_since(const Event& begin) const {
  float milliseconds = 0;
  MM_RETURN_IF_ERROR(check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace megamoe::cuda
