#include "check/gpu_state.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "cuda/host/runtime.hpp"
#include "host/errors.hpp"

namespace megamoe {
namespace {

/// NVML comes with the driver and its header with neither toolkit nor driver; these are the few functions called, as
/// its manual has them. Zero is success.
class Nvml {
 public:
  static Result<Nvml> open();

  Result<std::string> driver() const;
  /// Finds the GPU that CUDA counts as `ordinal`, which the functions below ask.
  Status choose(int ordinal);
  Result<uint32_t> clock_mhz(uint32_t domain) const { return ask(clock_, domain, "nvmlDeviceGetClockInfo"); }
  Result<uint32_t> max_clock_mhz(uint32_t domain) const { return ask(max_clock_, domain, "nvmlDeviceGetMaxClockInfo"); }
  Result<double> power_limit_watts() const;

  /// Clock domains.
  static constexpr uint32_t kSm = 1;
  static constexpr uint32_t kMemory = 2;

 private:
  using Device = void*;
  using ClockFunction = int(Device, uint32_t, uint32_t*);

  Status check(int code, std::string_view what) const;
  Result<uint32_t> ask(ClockFunction* function, uint32_t domain, std::string_view what) const;

  int (*init_)() = nullptr;
  const char* (*error_text_)(int) = nullptr;
  int (*driver_)(char*, uint32_t) = nullptr;
  int (*find_)(const char*, Device*) = nullptr;
  ClockFunction* clock_ = nullptr;
  ClockFunction* max_clock_ = nullptr;
  int (*power_limit_)(Device, uint32_t*) = nullptr;
  Device device_ = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// The library stays open until the program ends: it is asked after every row of a benchmark.
Result<Nvml> Nvml::open() {
  constexpr const char* kName = "libnvidia-ml.so.1";
  constexpr std::string_view kRemedy = "install the driver's utilities, or do without clocks";
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return error(StatusCode::unsupported, "the driver's management library must be there for the loader",
                 reason != nullptr ? reason : kName, kRemedy);
  }
  Nvml nvml;
  const bool has_all = find(library, "nvmlInit_v2", nvml.init_) && find(library, "nvmlErrorString", nvml.error_text_) &&
                       find(library, "nvmlSystemGetDriverVersion", nvml.driver_) &&
                       find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.find_) &&
                       find(library, "nvmlDeviceGetClockInfo", nvml.clock_) &&
                       find(library, "nvmlDeviceGetMaxClockInfo", nvml.max_clock_) &&
                       find(library, "nvmlDeviceGetEnforcedPowerLimit", nvml.power_limit_);
  if (!has_all) {
    return error(StatusCode::unsupported, "the driver's management library must have every function that is called",
                 kName, kRemedy);
  }
  MM_RETURN_IF_ERROR(nvml.check(nvml.init_(), "nvmlInit"));
  return nvml;
}

Status Nvml::check(int code, std::string_view what) const {
  if (code == 0) return {};
  return {StatusCode::unsupported, fmt::format("{} failed: {}", what, error_text_(code))};
}

Result<std::string> Nvml::driver() const {
  std::array<char, 128> text{};
  MM_RETURN_IF_ERROR(check(driver_(text.data(), text.size()), "nvmlSystemGetDriverVersion"));
  return std::string{text.data()};
}

Status Nvml::choose(int ordinal) {
  std::array<char, 32> bus_id{};
  MM_RETURN_IF_ERROR(
      cuda::check(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), ordinal), "cudaDeviceGetPCIBusId"));
  return check(find_(bus_id.data(), &device_), "nvmlDeviceGetHandleByPciBusId");
}

Result<uint32_t> Nvml::ask(ClockFunction* function, uint32_t domain, std::string_view what) const {
  uint32_t mhz = 0;
  MM_RETURN_IF_ERROR(check(function(device_, domain, &mhz), what));
  return mhz;
}

Result<double> Nvml::power_limit_watts() const {
  uint32_t milliwatts = 0;
  MM_RETURN_IF_ERROR(check(power_limit_(device_, &milliwatts), "nvmlDeviceGetEnforcedPowerLimit"));
  return milliwatts * 1e-3;
}

/// "13.0" of 13000.
Result<std::string> cuda_version() {
  int version = 0;
  MM_RETURN_IF_ERROR(cuda::check(cudaDriverGetVersion(&version), "cudaDriverGetVersion"));
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// `target` becomes the value of `result`, if it has one.
template <class T>
Status take(Result<T> result, T& target) {
  if (!result) return result.status();
  target = *std::move(result);
  return {};
}

}  // namespace

Result<GpuState> read_gpu_state() {
  const auto devices = cuda::hopper_devices();
  MM_RETURN_IF_ERROR(devices.status());
  Result<Nvml> nvml = Nvml::open();
  MM_RETURN_IF_ERROR(nvml.status());
  MM_RETURN_IF_ERROR(nvml->choose(devices->front().ordinal));
  GpuState state;
  state.name = devices->front().name;
  MM_RETURN_IF_ERROR(take(nvml->driver(), state.driver));
  MM_RETURN_IF_ERROR(take(cuda_version(), state.cuda));
  MM_RETURN_IF_ERROR(take(nvml->max_clock_mhz(Nvml::kSm), state.max_sm_mhz));
  MM_RETURN_IF_ERROR(take(nvml->clock_mhz(Nvml::kSm), state.clocks.sm_mhz));
  MM_RETURN_IF_ERROR(take(nvml->clock_mhz(Nvml::kMemory), state.clocks.memory_mhz));
  MM_RETURN_IF_ERROR(take(nvml->power_limit_watts(), state.power_limit_watts));
  return state;
}

}  // namespace megamoe
