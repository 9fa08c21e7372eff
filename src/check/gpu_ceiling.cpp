#include "check/gpu_ceiling.hpp"

#include <algorithm>

#include "check/gpu_read.hpp"
#include "cuda/host/runtime.hpp"
#include "host/errors.hpp"

namespace megamoe {

using cuda::check;

Result<double> measure_gpu_read_gbytes_per_s() {
  constexpr uint64_t kBytes = uint64_t{4} << 30;
  constexpr int kPasses = 5;
  const auto devices = cuda::hopper_devices();
  MM_RETURN_IF_ERROR(devices.status());
  const cuda::DeviceInfo& device = devices->front();
  const cuda::DeviceScope scope(device.ordinal);
  const auto memory = cuda::DeviceMemory::allocate(device.ordinal, kBytes);
  MM_RETURN_IF_ERROR(memory.status());
  const auto sum = cuda::DeviceMemory::allocate(device.ordinal, sizeof(uint32_t));
  MM_RETURN_IF_ERROR(sum.status());
  const auto stream = cuda::Stream::create(device.ordinal);
  MM_RETURN_IF_ERROR(stream.status());
  const auto begin = cuda::Event::create();
  MM_RETURN_IF_ERROR(begin.status());
  const auto end = cuda::Event::create();
  MM_RETURN_IF_ERROR(end.status());
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    MM_RETURN_IF_ERROR(begin->record(*stream));
    MM_RETURN_IF_ERROR(check(read_all(memory->data(), kBytes, sum->as<uint32_t>(), device.num_sms, stream->get()),
                             "launching the reading kernel"));
    MM_RETURN_IF_ERROR(end->record(*stream));
    MM_RETURN_IF_ERROR(stream->synchronize());
    const auto seconds = end->seconds_since(*begin);
    MM_RETURN_IF_ERROR(seconds.status());
    best = std::max(best, static_cast<double>(kBytes) / *seconds * 1e-9);
  }
  return best;
}

}  // namespace megamoe
